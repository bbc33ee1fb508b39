"""Requests over a real socket, byte by byte where a test needs it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The kind of problem; fails where the response is none, or shows a traceback."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        row = self.json()
        assert row["status"] == self.status and row["title"] and row["detail"]
        assert b"Traceback" not in self.body and b'File \\"' not in self.body
        return str(row["type"]).rpartition(":")[2]


def call(port: int, method: str, path: str, body: bytes | Iterable[bytes] = b"", headers: Any = None) -> Response:
    """Headers by their names with underscores; a body in parts is sent chunked."""
    plain = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=180)) as connection:
        connection.request(method, path, body or None, plain, encode_chunked=not isinstance(body, bytes))
        found = connection.getresponse()
        return Response(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())


def raw(port: int, content: bytes, seconds: float = 20) -> Response:
    """What comes back for these bytes, until the server closes or has answered."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=seconds)) as connection:
        connection.sendall(content)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Response(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
