"""Bodies of requests, counted byte by byte as they arrive: no header is trusted, chunked or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive

from groundling.serve.metrics import Metrics
from groundling.serve.problems import Problem, overloaded, too_large
from groundling.serve.settings import MB, Limits

LINGER = 10.0  # seconds in which the rest of a refused body is thrown away, so that its sender can read the response


class Disconnected(Exception):
    """The client disconnected."""


@dataclass
class Bodies:
    """Reads bodies; all that are in memory together have a limit too."""

    limits: Limits
    metrics: Metrics
    held: int = 0  # bytes

    @contextmanager
    def hold(self) -> Iterator[Holding]:
        """Bytes counted while the `with` lasts."""
        holding = Holding(self)
        try:
            yield holding
        finally:
            holding.release(holding.size)

    async def whole(self, receive: Receive, headers: Headers, holding: Holding) -> bytes:
        """The whole body, no larger than one may be, no slower than it may come."""
        self._check_length(headers, self.limits.body)
        content = bytearray()
        async for part in self._parts(receive):
            if len(content) + len(part) > self.limits.body:
                raise _large(self.limits.body)
            holding.add(len(part))
            content += part
        return bytes(content)

    async def lines(self, receive: Receive, headers: Headers) -> AsyncGenerator[bytes, None]:
        """The lines of a long body, without empty ones. Each has its own limit of size and time."""
        self._check_length(headers, self.limits.batch_bytes)
        with self.hold() as holding:
            async for line in self._lines(receive, holding):
                yield line

    async def _lines(self, receive: Receive, holding: Holding) -> AsyncIterator[bytes]:
        rest, total, count = bytearray(), 0, 0
        async for part in self._parts(receive, renew=True):
            total += len(part)
            holding.add(len(part))
            if total > self.limits.batch_bytes:
                raise _large(self.limits.batch_bytes)
            *whole, last = part.split(b"\n")
            for piece in whole:
                line, rest = bytes(rest + piece), bytearray()
                if len(line) > self.limits.body:
                    raise _large(self.limits.body, "a line of a batch")
                if line.strip():
                    count += 1
                    yield line
            rest += last
            holding.release(holding.size - len(rest))
            if len(rest) > self.limits.body:
                raise _large(self.limits.body, "a line of a batch")
            if count > self.limits.batch_lines:
                raise too_large(f"a batch has at most {self.limits.batch_lines:,} lines; send several")
        if rest.strip():
            yield bytes(rest)

    def _check_length(self, headers: Headers, limit: int) -> None:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 15 or int(length) > limit:
            raise _large(limit)

    async def _parts(self, receive: Receive, renew: bool = False) -> AsyncIterator[bytes]:
        """The parts of a body. Only waiting for the sender counts as time; with `renew`, anew for each line."""
        more, left = True, self.limits.receive
        while more:
            began = time.monotonic()
            part, more = await self._part(receive, left)
            left -= time.monotonic() - began
            self.metrics.received.inc(len(part))
            if renew and b"\n" in part:
                left = self.limits.receive
            yield part

    async def _part(self, receive: Receive, seconds: float) -> tuple[bytes, bool]:
        try:
            message = await asyncio.wait_for(receive(), max(0.001, seconds))
        except asyncio.TimeoutError as error:
            detail = f"the body did not arrive within {self.limits.receive:g} seconds; send it again, faster"
            raise Problem(408, "too-slow", detail, close=True) from error
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message.get("body", b""), bool(message.get("more_body", False))


@dataclass
class Holding:
    """What one request holds in memory."""

    bodies: Bodies
    size: int = 0

    def add(self, size: int) -> None:
        if self.bodies.held + size > self.bodies.limits.held:
            problem = overloaded("too many large requests at once; try again in a moment", 2)
            problem.close = True
            raise problem
        self.bodies.held += size
        self.size += size

    def release(self, size: int) -> None:
        self.bodies.held -= size
        self.size -= size


async def discard(receive: Receive, seconds: float = LINGER) -> None:
    """Read the rest of a body and forget it, for a while."""
    until = time.monotonic() + seconds
    more = True
    while more and (left := until - time.monotonic()) > 0:
        try:
            message = await asyncio.wait_for(receive(), left)
        except asyncio.TimeoutError:
            return
        more = message["type"] == "http.request" and bool(message.get("more_body", False))


def _large(limit: int, what: str = "a request") -> Problem:
    return too_large(f"{what} has at most {limit // MB} MB; make the image smaller")
