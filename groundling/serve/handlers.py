"""The endpoints that run inference: about one image, or about the images of a batch of lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from groundling.serve import requests
from groundling.serve.bodies import Bodies, Disconnected
from groundling.serve.engine import Engine
from groundling.serve.problems import Problem, bad
from groundling.serve.requests import Fields, InferenceRequest, Media
from groundling.serve.settings import Limits

PARSERS: dict[str, Callable[[Fields], InferenceRequest]] = {
    "caption": requests.parse_caption,
    "ground": requests.parse_ground,
    "audit": requests.parse_audit,
    "regions": requests.parse_regions,
}
NDJSON = "application/x-ndjson"
T = TypeVar("T")


@dataclass
class Handlers:
    """Reads a request, hands it to the engine, writes the response."""

    engine: Engine
    bodies: Bodies
    limits: Limits

    def single(
        self, parser: Callable[[Fields], InferenceRequest]
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint of one request about one image."""

        async def endpoint(request: Request) -> Response:
            with self.bodies.hold() as holding:
                kind = content_type(request)
                check_type(kind)
                content = await self.bodies.whole(request.receive, request.headers, holding)
                id, media, parsed = self.parse(parser, kind, content, dict(request.query_params))
                row = await until_disconnected(request.receive, self.engine.respond(media, parsed))
            return JSONResponse({"id": id, **row} if id else row)

        return endpoint

    def batch(self, parser: Callable[[Fields], InferenceRequest]) -> Batch:
        """The endpoint of many: a JSON object on every line, a response on every line, in the same order."""
        return Batch(self, parser)

    def parse(
        self, parser: Callable[[Fields], InferenceRequest], kind: str, content: bytes, query: dict[str, str]
    ) -> tuple[str, Media, InferenceRequest]:
        """The id that the client chose, the image, the request."""
        if kind == "application/json":
            if query:
                raise bad("with a JSON body, options go into the JSON, not into the query of the URL")
            return self.parse_json(parser, requests.parse_json(content))
        if not content:
            raise bad("the body is empty: send the bytes of an image")
        fields = Fields(query, self.limits, from_query=True)
        media = Media(content, frames=requests.parse_frames(fields) if kind.startswith("video/") else 0)
        parsed = parser(fields)
        fields.done()
        return "", media, parsed

    def parse_json(
        self, parser: Callable[[Fields], InferenceRequest], values: dict[str, Any]
    ) -> tuple[str, Media, InferenceRequest]:
        fields = Fields(values, self.limits)
        id, media = fields.text("id", requests.LONGEST_ID), requests.parse_media(fields)
        parsed = parser(fields)
        fields.done()
        return id, media, parsed


@dataclass(eq=False)
class Batch:
    """An ASGI application of its own: it responds to the first lines while later ones are still being sent."""

    handlers: Handlers
    parser: Callable[[Fields], InferenceRequest]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if content_type(request) not in (NDJSON, "application/jsonl", "application/ndjson"):
            raise Problem(415, "media-type", f"send one JSON object per line, Content-Type: {NDJSON}", close=True)
        tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None] = asyncio.Queue(
            2 * self.handlers.limits.batch  # one group is extracted while another is captioned
        )
        reader = asyncio.create_task(self._read(request, tasks))
        try:
            await self._write(tasks, send)
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, Disconnected):
                await reader
            while not tasks.empty():
                if isinstance(task := tasks.get_nowait(), asyncio.Task):
                    task.cancel()

    async def _read(self, request: Request, tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None]) -> None:
        number = 0
        try:
            async with contextlib.aclosing(self.handlers.bodies.lines(request.receive, request.headers)) as lines:
                async for line in lines:
                    number += 1
                    await tasks.put(asyncio.create_task(self._line(line, number)))
            await tasks.put(None)
        except Problem as problem:  # the rest of the body cannot be read
            await tasks.put(problem)
        except Disconnected:
            await tasks.put(Problem(400, "disconnected", "the client disconnected"))

    async def _write(self, tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None], send: Send) -> None:
        first = await tasks.get()
        if isinstance(first, Problem):
            raise first
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", NDJSON.encode())]})
        async for line in _in_order(first, tasks):
            message = {"type": "http.response.body", "body": line, "more_body": True}
            await asyncio.wait_for(send(message), self.handlers.limits.deadline)  # a client that does not read
        await send({"type": "http.response.body", "body": b""})

    async def _line(self, line: bytes, number: int) -> bytes:
        id = ""
        try:
            with self.handlers.bodies.hold() as holding:
                holding.add(len(line))
                values = requests.parse_json(line)
                id = values["id"][: requests.LONGEST_ID] if isinstance(values.get("id"), str) else ""
                id, media, parsed = self.handlers.parse_json(self.parser, values)
                row = await self.handlers.engine.respond(media, parsed, wait=True)
        except Problem as problem:
            row = {"problem": problem.to_dict()}
        return json.dumps({"line": number, "id": id, **row}).encode() + b"\n"


async def _in_order(
    first: asyncio.Task[bytes] | None, tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None]
) -> AsyncIterator[bytes]:
    """The responses in order; a body that could not be read to its end has a last line that says so."""
    task: asyncio.Task[bytes] | Problem | None = first
    while task is not None:
        if isinstance(task, Problem):
            if task.kind == "disconnected":
                raise Disconnected
            yield json.dumps({"problem": task.to_dict()}).encode() + b"\n"
            return
        yield await task
        task = await tasks.get()


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_type(kind: str) -> None:
    if kind != "application/json" and not kind.startswith(("image/", "video/")):
        detail = (
            "send the bytes of an image with Content-Type: image/jpeg (or video/mp4), or JSON with application/json"
        )
        raise Problem(415, "media-type", detail, close=True)


async def until_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; it is cancelled when the client disconnects."""
    task = asyncio.create_task(work)
    disconnect = asyncio.create_task(_disconnection(receive))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Disconnected
        return task.result()
    finally:
        task.cancel()
        disconnect.cancel()


async def _disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
