"""Requests that mean harm, or were damaged on the way: each must be answered with a 4xx."""

from __future__ import annotations

import http.client
import io
import json
import random
import select
import socket
import struct
import zlib
from collections.abc import Callable
from contextlib import closing

from http_calls import Response
from PIL import Image

DRAW = random.Random(0)
JSON, PNG = b"application/json", b"image/png"


def post(path: bytes, kind: bytes, body: bytes, more: bytes = b"") -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + kind + b"\r\n" + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def get(path: bytes, more: bytes = b"") -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n"


def picture(kind: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(buffer, kind)
    return buffer.getvalue()


def bomb(width: int = 50_000, height: int = 50_000) -> bytes:
    """A PNG of a few bytes whose header promises many pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def truncated() -> bytes:
    content = picture(DRAW.choice(["JPEG", "PNG", "WEBP", "GIF"]))
    return post(b"/v1/caption", b"image/jpeg", content[: DRAW.randrange(1, max(2, len(content) // 3))])


def noise() -> bytes:
    return post(b"/v1/caption", PNG, DRAW.randbytes(DRAW.randrange(1, 5000)))


def deep() -> bytes:
    return post(b"/v1/ground", JSON, b'{"image":' + DRAW.choice([b"[", b'{"a":']) * 50_000)


def wrong_types() -> bytes:
    row = {"image": DRAW.choice([1, None, [], {}, "§", "AAAA"]), "sentence": DRAW.choice([1, [], {}, None, "x" * 9000])}
    return post(b"/v1/ground", JSON, json.dumps(row).encode())


def paths() -> bytes:
    tricks = [b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"//etc/passwd", b"/examples/..%5c..%5capp.py"]
    tricks += [
        b"/v1/review/picture?image=/etc/passwd",
        b"/v1/search/file?image=..%2f..%2fetc%2fpasswd",
        b"/%00",
        b"/\\..\\x",
    ]
    return get(DRAW.choice(tricks))


def headers() -> bytes:
    many = b"".join(b"X-%d: %d\r\n" % (i, i) for i in range(DRAW.randrange(2000, 9000)))
    return get(b"/healthz", DRAW.choice([many, b"X: " + b"y" * 100_000 + b"\r\n"]))


def smuggled() -> bytes:
    both = b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
    return DRAW.choice(
        [post(b"/v1/caption", PNG, b"x", both), post(b"/v1/caption", PNG, b"x", b"Content-Length: 7\r\n")]
    )


def foreign() -> bytes:
    row = b'{"image": "cat", "label": 0, "action": "reject"}'
    if DRAW.random() < 0.5:
        return post(b"/v1/review", JSON, row, b"Origin: http://evil.example\r\n")
    return post(b"/v1/review", b"text/plain", row)


KINDS: dict[str, Callable[[], bytes]] = {
    "truncated": truncated,
    "noise": noise,
    "bomb": lambda: post(b"/v1/caption", PNG, bomb()),
    "large canvas": lambda: post(b"/v1/caption", PNG, bomb(9000, 9000)),
    "wrong media type": lambda: post(b"/v1/caption", DRAW.choice([b"text/html", b"", b"multipart/form-data"]), b"x"),
    "not UTF-8": lambda: post(b"/v1/ground", JSON, b'{"image": "' + DRAW.randbytes(50) + b'"}'),
    "deep JSON": deep,
    "wrong types": wrong_types,
    "numbers": lambda: post(
        b"/v1/caption", JSON, b'{"image": "AAAA", "beam": ' + DRAW.choice([b"1e999", b"NaN", b"-9" * 9]) + b"}"
    ),
    "paths": paths,
    "headers": headers,
    "no HTTP": lambda: DRAW.randbytes(60) + b"\r\n\r\n",
    "bad chunk": lambda: b"POST /v1/caption HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    "smuggled": smuggled,
    "other page": foreign,
    "huge length": lambda: post(b"/v1/caption", PNG, b"").replace(b"Content-Length: 0", b"Content-Length: 99999999999"),
}
LONG = ("slow head", "slow body", "endless body")  # kinds that take seconds


def send(port: int, kind: str) -> Response:
    """The response of the server to a request of this kind; status 0 where it closed without one."""
    match kind:
        case "slow head":
            return exchange(port, [b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * 40], pause=0.5)
        case "slow body":
            return slow(port)
        case "endless body":
            return endless(port)
    return exchange(port, [KINDS[kind]()])


def slow(port: int) -> Response:
    """A byte now and then, of a body that never ends."""

    def drip() -> list[bytes]:
        return [post(b"/v1/caption", PNG, b"").replace(b"Content-Length: 0", b"Content-Length: 1000"), *[b"x"] * 40]

    return exchange(port, drip(), pause=0.5)


def endless(port: int) -> Response:
    """100 MB in chunks, to a server that takes 20."""
    head = (
        b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return exchange(port, [head, *[b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 1600])


def exchange(port: int, parts: list[bytes], pause: float = 0.0) -> Response:
    """Send until a response comes or all is sent; what had come before the connection broke is the response."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=40)) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                if pause and select.select([connection], [], [], pause)[0]:
                    break  # it has answered
        except OSError:
            pass  # the server has answered and closed
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
            return Response(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException) as error:
            return Response(0, {}, repr(error).encode())
