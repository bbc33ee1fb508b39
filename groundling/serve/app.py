"""All routes of the server, and the parts behind them, put together."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from groundling import __version__
from groundling.formats import FORMATS
from groundling.serve import openapi, reference
from groundling.serve.bodies import Bodies
from groundling.serve.decoder_pool import DecoderPool
from groundling.serve.engine import Engine
from groundling.serve.handlers import PARSERS, Handlers, content_type, until_disconnected
from groundling.serve.metrics import Metrics
from groundling.serve.middleware import Middleware, paths_of
from groundling.serve.models import Models
from groundling.serve.problems import Problem, bad
from groundling.serve.requests import Fields, parse_json
from groundling.serve.search import MOST, Search
from groundling.serve.settings import Settings

if TYPE_CHECKING:
    from groundling.serve.review import Review

PAGE = (
    "index.html",
    "page.css",
    "api.js",
    "draw.js",
    "photo.js",
    "search.js",
    "review-store.js",
    "page.js",
    "icon.svg",
)
EXAMPLES = ("coffee.jpg", "cat.jpg", "rocket.jpg", "astronaut.jpg")


@dataclass
class Site:
    """Everything that a running server holds."""

    settings: Settings
    metrics: Metrics
    engine: Engine
    bodies: Bodies
    review: Review | None = None
    search: Search | None = None

    @staticmethod
    def of(settings: Settings) -> Site:
        """Made before the server listens: what is wrong with the labels or the index is an error at once."""
        limits, metrics = settings.limits, Metrics()
        decoders = DecoderPool(settings.decoders, limits.pixels, limits.decode)
        engine = Engine(lambda: Models.load(settings.model, settings.grounder), limits, metrics, decoders)
        site = Site(settings, metrics, engine, Bodies(limits, metrics))
        if settings.review:
            from groundling.serve.review import Review

            site.review = Review.open(settings.review, settings.reviews, settings.review_limit)
        if settings.index:
            site.search = Search.open(settings.index, settings.grounder)
        return site

    def app(self) -> Application:
        routes = self._routes()
        public = frozenset(route.path for route in routes if route.name == "public")
        middleware = Middleware(Router(routes), self.settings, self.metrics, public, paths_of(routes))
        return Application(middleware, self)

    def _routes(self) -> list[Route]:
        handlers = Handlers(self.engine, self.bodies, self.settings.limits)
        here = files(__package__)
        assets = {f"/{name}": here / "page" / name for name in PAGE} | {
            f"/examples/{name}": here / "photos" / name for name in EXAMPLES
        }
        assets["/"] = assets.pop("/index.html")
        contents = {path: (file.read_bytes(), file.name) for path, file in assets.items()}
        contents |= self.review.contents() if self.review else {}
        return [
            *(Route(path, _file(*content), name="public") for path, content in contents.items()),
            Route("/healthz", self._healthz, name="public"),
            Route("/readyz", self._readyz, name="public"),
            Route("/openapi.json", self._openapi, name="public"),
            Route("/docs", self._docs, name="public"),
            Route("/metrics", self._metrics),
            Route("/v1/about", self._about),
            *(Route(f"/v1/{name}", handlers.single(parser), methods=["POST"]) for name, parser in PARSERS.items()),
            *(Route(f"/v1/batch/{name}", handlers.batch(parser), methods=["POST"]) for name, parser in PARSERS.items()),
            Route("/v1/search", self._search),
            Route("/v1/search/file", self._search_file),
            Route("/v1/review", self._decide, methods=["POST"]),
            Route("/v1/review", self._review_labels),
            Route("/v1/review/picture", self._review_picture),
        ]

    # ---------------------------------------------------------------- about the server

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        if not self.engine.ready:
            why = self.engine.load_error or "the models are being loaded"
            raise Problem(503, "not-ready", why, {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _about(self, request: Request) -> Response:
        limits = self.settings.limits
        return JSONResponse(
            {
                "version": __version__,
                "ready": self.engine.ready,
                "examples": [f"/examples/{name}" for name in EXAMPLES],
                "formats": list(FORMATS),
                "review": self.review is not None,
                "search": self.search is not None,
                "limits": {"bytes": limits.body, "pixels": limits.pixels, "sentence": limits.sentence},
            }
        )

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi.document())

    async def _docs(self, request: Request) -> Response:
        return Response(reference.page(openapi.document()), media_type="text/html")

    # ---------------------------------------------------------------- search and review

    async def _search(self, request: Request) -> Response:
        search = self._index()
        fields = Fields(dict(request.query_params), self.settings.limits, from_query=True)
        query, images = fields.text("query", 500), int(fields.number("images", 1, MOST, whole=True) or 12)
        fields.done()
        if not query.strip():
            raise bad("query is empty: name what the photos should show")
        work = self.engine.call(lambda: search(query, images))
        return JSONResponse(await until_disconnected(request.receive, work))

    async def _search_file(self, request: Request) -> Response:
        return await _file_response(self._index().files.get(request.query_params.get("image", "")))

    def _index(self) -> Search:
        if self.search is None:
            raise Problem(
                404, "no-index", "there is nothing to search in: start the server with --index INDEX", close=True
            )
        return self.search

    async def _review_labels(self, request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self._review().to_dict))

    async def _review_picture(self, request: Request) -> Response:
        picture = await asyncio.to_thread(self._review().picture, request.query_params.get("image", ""))
        return Response(picture, media_type="image/webp")

    async def _decide(self, request: Request) -> Response:
        if content_type(request) != "application/json":
            raise Problem(415, "media-type", "send JSON, Content-Type: application/json", close=True)
        review = self._review()
        with self.bodies.hold() as holding:
            content = await self.bodies.whole(request.receive, request.headers, holding)
            fields = Fields(parse_json(content), self.settings.limits)
        kept = await asyncio.shield(asyncio.to_thread(review.decide, fields))
        return JSONResponse(kept, status_code=201)

    def _review(self) -> Review:
        if self.review is None:
            detail = "there is nothing to review: start the server with --review LABELS"
            raise Problem(404, "no-review", detail, close=True)
        return self.review


@dataclass
class Application:
    """The ASGI application: the middleware and what is behind it, started and ended by the server."""

    middleware: Middleware
    site: Site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.middleware(scope, receive, send)
            return
        async with self._alive():
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        self.site.engine.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.site.engine.stop)
            if self.site.review:
                self.site.review.store.close()


async def _file_response(path: Path | None) -> Response:
    """A picture of a list that was made when the server started; no request names a path."""
    if path is None:
        raise Problem(404, "unknown-photo", "there is no such photo; GET /v1/search lists names")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        return Response(await asyncio.to_thread(path.read_bytes), media_type=kind)
    except OSError as error:
        raise Problem(404, "unknown-photo", "this photo was moved or deleted since the server started") from error


def _file(content: bytes, name: str) -> Any:
    """An endpoint that gives a file of the package, read when the server starts."""
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    kind = kinds.get(name.rpartition(".")[2], "image/jpeg")

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return endpoint
