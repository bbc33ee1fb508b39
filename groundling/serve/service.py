"""The endpoints that answer with inference: one image each, or a batch of lines."""

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

from groundling.serve import asks
from groundling.serve.asks import Ask, Fields, Media
from groundling.serve.bodies import Bodies, Gone
from groundling.serve.engine import Engine
from groundling.serve.problems import Problem, bad
from groundling.serve.settings import Limits

PARSERS: dict[str, Callable[[Fields], Ask]] = {
    "caption": asks.caption,
    "ground": asks.ground,
    "audit": asks.audit,
    "regions": asks.look,
}
NDJSON = "application/x-ndjson"
T = TypeVar("T")


@dataclass
class Service:
    """Reads a request, asks the engine, writes the answer."""

    engine: Engine
    bodies: Bodies
    limits: Limits

    def single(self, parser: Callable[[Fields], Ask]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint of one ask about one image."""

        async def endpoint(request: Request) -> Response:
            with self.bodies.hold() as holding:
                kind = content_type(request)
                check_type(kind)
                content = await self.bodies.whole(request.receive, request.headers, holding)
                id, media, ask = self.parse(parser, kind, content, dict(request.query_params))
                row = await while_wanted(request.receive, self.engine.answer(media, ask))
            return JSONResponse({"id": id, **row} if id else row)

        return endpoint

    def batch(self, parser: Callable[[Fields], Ask]) -> Batch:
        """The endpoint of many: a JSON object on every line, an answer on every line, in the same order."""
        return Batch(self, parser)

    def parse(
        self, parser: Callable[[Fields], Ask], kind: str, content: bytes, query: dict[str, str]
    ) -> tuple[str, Media, Ask]:
        """The id that the client chose, the image, the ask."""
        if kind == "application/json":
            if query:
                raise bad("with a JSON body, options go into the JSON, not into the address")
            return self.parse_json(parser, asks.parse_json(content))
        if not content:
            raise bad("the body is empty: send the bytes of an image")
        fields = Fields(query, self.limits, plain=True)
        frames = fields.number("frames", 1, 32, whole=True) if kind.startswith("video/") else 0
        media = Media(content, frames=self.limits.frames if frames is None else int(frames))
        ask = parser(fields)
        fields.done()
        return "", media, ask

    def parse_json(self, parser: Callable[[Fields], Ask], values: dict[str, Any]) -> tuple[str, Media, Ask]:
        fields = Fields(values, self.limits)
        id, media, ask = fields.text("id", asks.LONGEST_ID), asks.media(fields), parser(fields)
        fields.done()
        return id, media, ask


@dataclass(eq=False)
class Batch:
    """An ASGI application of its own: it answers the first lines while later ones are still being sent."""

    service: Service
    parser: Callable[[Fields], Ask]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if content_type(request) not in (NDJSON, "application/jsonl", "application/ndjson"):
            raise Problem(415, "media-type", f"send one JSON object per line, Content-Type: {NDJSON}", close=True)
        tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None] = asyncio.Queue(self.service.limits.batch)
        reader = asyncio.create_task(self._read(request, tasks))
        try:
            await self._write(tasks, send)
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, Gone):
                await reader
            while not tasks.empty():
                if isinstance(task := tasks.get_nowait(), asyncio.Task):
                    task.cancel()

    async def _read(self, request: Request, tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None]) -> None:
        number = 0
        try:
            async with contextlib.aclosing(self.service.bodies.lines(request.receive, request.headers)) as lines:
                async for line in lines:
                    number += 1
                    await tasks.put(asyncio.create_task(self._line(line, number)))
            await tasks.put(None)
        except Problem as problem:  # the rest of the body cannot be read
            await tasks.put(problem)
        except Gone:
            await tasks.put(Problem(400, "gone", "the client went away"))

    async def _write(self, tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None], send: Send) -> None:
        first = await tasks.get()
        if isinstance(first, Problem):
            raise first
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", NDJSON.encode())]})
        async for line in _in_order(first, tasks):
            message = {"type": "http.response.body", "body": line, "more_body": True}
            await asyncio.wait_for(send(message), self.service.limits.deadline)  # a client that does not read
        await send({"type": "http.response.body", "body": b""})

    async def _line(self, line: bytes, number: int) -> bytes:
        id = ""
        try:
            with self.service.bodies.hold() as holding:
                holding.add(len(line))
                values = asks.parse_json(line)
                id = values["id"][: asks.LONGEST_ID] if isinstance(values.get("id"), str) else ""
                id, media, ask = self.service.parse_json(self.parser, values)
                row = await self.service.engine.answer(media, ask, patient=True)
        except Problem as problem:
            row = {"problem": problem.to_dict()}
        return json.dumps({"line": number, "id": id, **row}).encode() + b"\n"


async def _in_order(
    first: asyncio.Task[bytes] | None, tasks: asyncio.Queue[asyncio.Task[bytes] | Problem | None]
) -> AsyncIterator[bytes]:
    """The answers as they are asked for; a body that could not be read to its end has a last line that says so."""
    task: asyncio.Task[bytes] | Problem | None = first
    while task is not None:
        if isinstance(task, Problem):
            if task.kind == "gone":
                raise Gone
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


async def while_wanted(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; it is cancelled when the client goes away."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
