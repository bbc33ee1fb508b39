"""All addresses of the server, and the parts behind them, put together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from groundling import __version__
from groundling.formats import FORMATS
from groundling.serve import openapi, reference
from groundling.serve.asks import Fields, parse_json
from groundling.serve.bodies import Bodies
from groundling.serve.decoders import Decoders
from groundling.serve.engine import Engine
from groundling.serve.guard import Guard, names_of
from groundling.serve.metrics import Metrics
from groundling.serve.models import Models
from groundling.serve.problems import Problem, bad
from groundling.serve.review import Reviews, decision, list_photos
from groundling.serve.searching import MOST, Search
from groundling.serve.service import NDJSON, PARSERS, Service, content_type, while_wanted
from groundling.serve.settings import Settings

PAGE = ("index.html", "page.css", "api.js", "draw.js", "photo.js", "review.js", "search.js", "page.js", "icon.svg")
EXAMPLES = ("astronaut.jpg", "cat.jpg", "coffee.jpg", "rocket.jpg")
LISTED = 500  # photos in one answer


@dataclass
class Site:
    """Everything that a running server holds."""

    settings: Settings
    metrics: Metrics
    engine: Engine
    bodies: Bodies
    photos: dict[str, Path] = field(default_factory=dict)
    reviews: Reviews | None = None
    search: Search | None = None

    @staticmethod
    def of(settings: Settings) -> Site:
        """Made before the server listens: what is wrong with the folder or the file of reviews is told at once."""
        limits, metrics = settings.limits, Metrics()
        decoders = Decoders(settings.decoders, limits.pixels, limits.decode)
        engine = Engine(lambda: Models.load(settings.model, settings.grounder), limits, metrics, decoders)
        site = Site(settings, metrics, engine, Bodies(limits, metrics))
        if settings.photos and settings.reviews:
            site.photos = list_photos(settings.photos)
            site.reviews = Reviews.open(settings.reviews)
        if settings.index:
            site.search = Search.open(settings.index, settings.grounder)
        return site

    def app(self) -> Application:
        routes = self._routes()
        public = frozenset(route.path for route in routes if route.name == "public")
        guard = Guard(Router(routes), self.settings, self.metrics, public, names_of(routes))
        return Application(guard, self)

    def _routes(self) -> list[Route]:
        service = Service(self.engine, self.bodies, self.settings.limits)
        here = files(__package__)
        shown = {f"/{name}": here / "page" / name for name in PAGE} | {
            f"/examples/{name}": here / "photos" / name for name in EXAMPLES
        }
        shown["/"] = shown.pop("/index.html")
        return [
            *(Route(path, _file(file.read_bytes(), file.name), name="public") for path, file in shown.items()),
            Route("/healthz", self._healthz, name="public"),
            Route("/readyz", self._readyz, name="public"),
            Route("/openapi.json", self._openapi, name="public"),
            Route("/docs", self._docs, name="public"),
            Route("/metrics", self._metrics),
            Route("/v1/about", self._about),
            *(Route(f"/v1/{name}", service.single(parser), methods=["POST"]) for name, parser in PARSERS.items()),
            *(Route(f"/v1/batch/{name}", service.batch(parser), methods=["POST"]) for name, parser in PARSERS.items()),
            Route("/v1/search", self._search),
            Route("/v1/search/file", self._hit),
            Route("/v1/photos", self._photos),
            Route("/v1/photos/file", self._photo),
            Route("/v1/reviews", self._decide, methods=["POST"]),
            Route("/v1/reviews", self._decided),
            Route("/v1/reviews/export", self._export),
        ]

    # ---------------------------------------------------------------- about the server

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        if not self.engine.ready:
            why = self.engine.trouble or "the models are being loaded"
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
                "photos": len(self.photos),
                "search": self.search is not None,
                "limits": {"bytes": limits.body, "pixels": limits.pixels, "sentence": limits.sentence},
            }
        )

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi.document())

    async def _docs(self, request: Request) -> Response:
        return Response(reference.page(openapi.document()), media_type="text/html")

    # ---------------------------------------------------------------- the review of a folder

    async def _photos(self, request: Request) -> Response:
        fields = Fields(dict(request.query_params), self.settings.limits, plain=True)
        start = int(fields.number("start", 0, 1e9, whole=True) or 0)
        fields.done()
        counts = self._kept().reviewed()
        names = list(self.photos)[start : start + LISTED]
        rows = [{"image": name, "decided": counts.get(name, 0)} for name in names]
        return JSONResponse({"total": len(self.photos), "start": start, "photos": rows})

    async def _photo(self, request: Request) -> Response:
        return await _sent(self.photos.get(request.query_params.get("image", "")))

    async def _search(self, request: Request) -> Response:
        search = self._index()
        fields = Fields(dict(request.query_params), self.settings.limits, plain=True)
        query, images = fields.text("query", 500), int(fields.number("images", 1, MOST, whole=True) or 12)
        fields.done()
        if not query.strip():
            raise bad("say what to look for: query")
        work = self.engine.run(lambda: search(query, images))
        return JSONResponse(await while_wanted(request.receive, work))

    async def _hit(self, request: Request) -> Response:
        return await _sent(self._index().files.get(request.query_params.get("image", "")))

    def _index(self) -> Search:
        if self.search is None:
            raise Problem(
                404, "no-index", "there is nothing to search in: start the server with --index INDEX", close=True
            )
        return self.search

    async def _decide(self, request: Request) -> Response:
        if content_type(request) != "application/json":
            raise Problem(415, "media-type", "send JSON, Content-Type: application/json", close=True)
        reviews = self._kept()
        with self.bodies.hold() as holding:
            content = await self.bodies.whole(request.receive, request.headers, holding)
            fields = Fields(parse_json(content), self.settings.limits)
        decided = decision(fields, self.photos, time.time())
        count = await asyncio.shield(asyncio.to_thread(reviews.add, decided))
        return JSONResponse({"accepted": asdict(decided), "count": count}, status_code=201)

    async def _decided(self, request: Request) -> Response:
        image = request.query_params.get("image", "")
        return JSONResponse({"image": image, "decisions": [asdict(d) for d in self._kept().of(image)]})

    async def _export(self, request: Request) -> Response:
        lines = [json.dumps(asdict(d)) + "\n" for d in list(self._kept().latest.values())]
        headers = {"Content-Type": NDJSON, "Content-Disposition": 'attachment; filename="reviews.jsonl"'}
        return Response("".join(lines), headers=headers)

    def _kept(self) -> Reviews:
        if self.reviews is None:
            detail = "there is nothing to review: start the server with --photos FOLDER --reviews FILE"
            raise Problem(404, "no-review", detail, close=True)
        return self.reviews


@dataclass
class Application:
    """The ASGI application: the guard and what is behind it, started and ended by the server."""

    guard: Guard
    site: Site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.guard(scope, receive, send)
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
            if self.site.reviews:
                self.site.reviews.close()


async def _sent(path: Path | None) -> Response:
    """A picture of a list that was made when the server started; no request names a path."""
    if path is None:
        raise Problem(404, "unknown-photo", "there is no such photo; GET /v1/photos or /v1/search tells their names")
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
