"""The head of a request has a time limit, and what is not HTTP gets a problem: an application over a real socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from http_calls import raw

from groundling.serve import protocol
from groundling.serve.protocol import BoundedProtocol


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(protocol, "HEAD", 0.5)
    config = uvicorn.Config(hello, http=BoundedProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(30)


def test_half_a_head_is_answered_when_its_time_is_over(port: int) -> None:
    began = time.monotonic()
    response = raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    assert response.status == 408 and response.problem == "too-slow" and time.monotonic() - began >= 0.5
    assert response.headers["connection"] == "close"


def test_a_connection_that_sends_nothing_is_closed_too(port: int) -> None:
    assert raw(port, b"").status == 408


def test_a_whole_head_has_no_time_limit_and_noise_is_a_problem(port: int) -> None:
    assert raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").body == b"hello"
    assert raw(port, b"\x16\x03\x01\r\n\r\n").problem == "bad-request"
