"""The outermost layer: access, the number of open requests, headers, logs and metrics. No log has content of images."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groundling.serve.bodies import Disconnected, discard
from groundling.serve.metrics import Metrics
from groundling.serve.problems import MEDIA_TYPE, Problem, internal, overloaded
from groundling.serve.settings import Settings

access = logging.getLogger("groundling.access")
log = logging.getLogger(__name__)

SAFE = ("GET", "HEAD", "OPTIONS")
CLIENT_CLOSED = 499  # only in the log
HEADERS = 16 * 1024  # bytes of all headers; the HTTP parser only limits what comes in several parts
POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:"),
        *("media-src blob:", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    ]
)
SECURITY_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass
class Exchange:
    """One request and its response so far."""

    scope: Scope
    receive: Receive
    send: Send
    id: str
    origin: str  # of another page that may read the response; "" for none
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    sent: int = 0
    received: int = 0
    started: bool = False

    async def receive_counted(self) -> Message:
        message = await self.receive()
        self.received += len(message.get("body", b""))
        return message

    async def send_with_headers(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in (SECURITY_HEADERS | {"X-Request-Id": self.id}).items():
                headers[name] = value
            if self.origin:
                headers["Access-Control-Allow-Origin"] = self.origin
                headers["Vary"] = "Origin"
                headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        self.sent += len(message.get("body", b""))
        await self.send(message)

    async def send_problem(self, problem: Problem) -> None:
        """Send the problem. Where the body was not read, throw the rest away before the connection ends."""
        content = problem.to_bytes()
        headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(content)), **problem.headers}
        if problem.close:
            headers["Connection"] = "close"
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send_with_headers({"type": "http.response.start", "status": problem.status, "headers": raw})
        await self.send_with_headers({"type": "http.response.body", "body": content, "more_body": problem.close})
        if problem.close:
            await discard(self.receive)
            await self.send_with_headers({"type": "http.response.body", "body": b""})


@dataclass
class Middleware:
    """Wraps the routes. `public` are the addresses that need no token; `names` the routes by their endpoints."""

    app: ASGIApp
    settings: Settings
    metrics: Metrics
    public: frozenset[str]
    names: dict[Any, str]
    open: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        allowed = origin if origin in self.settings.origins else ""
        exchange = Exchange(scope, receive, send, _request_id(headers), allowed)
        scope["app"] = self  # so that the router raises 404 and 405 instead of responding itself
        self.open += 1
        self.metrics.open.inc()
        try:
            await self._respond(exchange, headers)
        finally:
            self.open -= 1
            self.metrics.open.dec()
            self._log(exchange)

    async def _respond(self, exchange: Exchange, headers: Headers) -> None:
        try:
            if preflight := self._preflight(exchange, headers):
                await exchange.send_with_headers(preflight)
                await exchange.send_with_headers({"type": "http.response.body", "body": b""})
                return
            self._check(exchange.scope, headers)
            await self.app(exchange.scope, exchange.receive_counted, exchange.send_with_headers)
        except Disconnected:
            exchange.status = exchange.status or CLIENT_CLOSED
        except asyncio.CancelledError:  # the server ends, and this took too long to wait for
            if exchange.started:
                raise
            await exchange.send_problem(overloaded("the server is being ended; try again in a moment", 5))
        except Exception as error:
            problem = _as_problem(error, exchange)
            if (
                exchange.started
            ):  # half a response is sent: the connection is cut, so that nobody takes it for the whole
                raise RuntimeError(f"a response was cut off: {problem.detail}") from None
            await exchange.send_problem(problem)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Problem where this request must not go on."""
        if self.open > self.settings.limits.requests:
            raise _closing(overloaded(f"{self.open} requests are open already; try again in a moment"))
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS:
            raise _closing(Problem(431, "headers", f"the headers have more than {HEADERS // 1024} KB; send fewer"))
        self._check_host(headers)
        self._check_origin(scope["method"], headers)
        if self.settings.token and scope["path"] not in self.public:
            given = headers.get("authorization", "")
            kind, _, token = given.partition(" ")
            right = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.settings.token.encode())
            if kind.lower() != "bearer" or not right:
                detail = "this server needs a token: send the header Authorization: Bearer TOKEN"
                raise _closing(Problem(401, "token", detail, {"WWW-Authenticate": "Bearer"}))

    def _check_host(self, headers: Headers) -> None:
        """A page elsewhere must not reach a server on this machine by a name of its own (DNS rebinding)."""
        if self.settings.token or self.settings.open:
            return
        name = _hostname(headers.get("host", ""))
        if name not in ("localhost", "127.0.0.1", "::1", self.settings.host):
            raise _closing(Problem(421, "host", f"use http://{self.settings.host}:{self.settings.port}/ instead"))

    def _check_origin(self, method: str, headers: Headers) -> None:
        origin = headers.get("origin")
        if method in SAFE or not origin or origin in self.settings.origins:
            return
        if _authority(origin) != headers.get("host", "").lower():
            detail = f"scripts of other pages have no access; to give it, start the server with --cors {origin[:100]}"
            raise _closing(Problem(403, "origin", detail))

    def _preflight(self, exchange: Exchange, headers: Headers) -> Message | None:
        method = headers.get("access-control-request-method")
        if not (exchange.origin and method and exchange.scope["method"] == "OPTIONS"):
            return None
        rows = [
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"authorization, content-type, x-request-id"),
            (b"access-control-max-age", b"600"),
            (b"content-length", b"0"),
        ]
        return {"type": "http.response.start", "status": 204, "headers": rows}

    def _log(self, exchange: Exchange) -> None:
        route = self.names.get(exchange.scope.get("endpoint"), "unknown")
        seconds = time.monotonic() - exchange.began
        method = exchange.scope["method"] if exchange.scope["method"] in (*SAFE, "POST") else "other"
        self.metrics.requests.labels(route, method, str(exchange.status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        line = {
            "time": round(time.time(), 3),
            "id": exchange.id,
            "client": (exchange.scope.get("client") or ("",))[0],
            "method": method,
            "route": route,
            "status": exchange.status,
            "ms": round(seconds * 1000, 1),
            "bytes_in": exchange.received,
            "bytes_out": exchange.sent,
        }
        access.info(json.dumps(line))


def _as_problem(error: Exception, exchange: Exchange) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # of the router: no such address, no such method
        known = {404: "there is no such address; GET /docs lists them", 405: "this address takes another method"}
        cure = known.get(error.status_code, "GET /docs lists what can be requested")
        return _closing(Problem(error.status_code, "address", cure, dict(error.headers or {})))
    log.error("request %s failed", exchange.id, exc_info=error)
    return _closing(internal())


def _closing(problem: Problem) -> Problem:
    """Refused before its body was read."""
    problem.close = True
    return problem


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given) else secrets.token_hex(8)


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def paths_of(routes: Iterable[Any]) -> dict[Any, str]:
    """The address of each endpoint, for logs and metrics."""
    return {route.endpoint: route.path for route in routes}
