"""HTTP/1.1 by uvicorn, with two bounds more: the head of a request has a time limit, a bad one a problem."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from groundling.serve.problems import MEDIA_TYPE, Problem, bad

HEAD = 10.0  # seconds from the first byte of a request to the end of its head


class BoundedProtocol(H11Protocol):
    """One connection. A framework's class can only be changed by inheriting from it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._start_timer()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(bad("this is not HTTP as the server reads it: a header is damaged, or they are larger than 16 KB"))

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._refuse(Problem(408, "too-slow", f"the head of the request did not arrive within {HEAD:g} seconds"))

    def _refuse(self, problem: Problem) -> None:
        """Respond where no response has begun, then close."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        content = problem.to_bytes()
        headers: list[tuple[str, str]] = [
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(content))),
            ("Connection", "close"),
        ]
        events: list[Any] = [
            h11.Response(status_code=problem.status, headers=headers),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ]
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:  # the handler of this request learns that nobody waits
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
