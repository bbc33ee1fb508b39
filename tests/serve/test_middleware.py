"""Who may ask, and what every response carries. The application is called without a network."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from http_calls import Response

from groundling.serve.app import Application, Site
from groundling.serve.settings import Limits, Settings

ELSEWHERE = "https://example.org"
OPEN = Settings(open=True, host="0.0.0.0")


def call(app: Any, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
    """One request to an ASGI application."""
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw, "client": ("me", 1)}
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Response(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))


def app(settings: Settings = OPEN) -> Application:
    return Site.of(settings).app()


def test_scripts_of_other_pages_are_refused_unless_they_are_named() -> None:
    row = {"host": "here", "content_type": "application/json", "origin": ELSEWHERE}
    refused = call(app(), "POST", "/v1/ground", b"{}", **row)
    assert refused.status == 403 and refused.problem == "origin"
    assert "access-control-allow-origin" not in refused.headers
    named = app(replace(OPEN, origins=(ELSEWHERE,)))
    assert call(named, "POST", "/v1/ground", b"{}", **row).status == 400
    assert call(named, "POST", "/v1/ground", b"{}", **row).headers["access-control-allow-origin"] == ELSEWHERE
    assert call(app(), "POST", "/v1/ground", b"{}", **row | {"origin": "http://here"}).status == 400  # its own page


def test_a_preflight_is_answered_for_named_pages_alone() -> None:
    preflight = {"host": "here", "access_control_request_method": "POST"}
    named = app(replace(OPEN, origins=(ELSEWHERE,)))
    assert call(named, "OPTIONS", "/v1/ground", origin=ELSEWHERE, **preflight).status == 204
    other = call(named, "OPTIONS", "/v1/ground", origin="https://other.example", **preflight)
    assert other.status == 405 and "access-control-allow-origin" not in other.headers


def test_with_a_token_the_page_is_open_and_all_else_is_not() -> None:
    locked = app(Settings(token="a-long-secret"))
    assert call(locked, "GET", "/").status == call(locked, "GET", "/docs").status == 200
    for path in ("/metrics", "/v1/about", "/v1/review", "/v1/review/picture", "/v1/search", "/no/such"):
        response = call(locked, "GET", path)
        assert response.status == 401 and response.headers["www-authenticate"] == "Bearer"
        assert call(locked, "GET", path, authorization="bearer a-long-secret").status != 401


def test_too_many_open_requests_are_told_when_to_come_back() -> None:
    site = app(replace(OPEN, limits=Limits(requests=1)))
    site.middleware.open = 1
    response = call(site, "GET", "/healthz")
    assert response.status == 503 and int(response.headers["retry-after"]) >= 1
    assert site.middleware.open == 1


def test_a_server_without_models_runs_but_is_not_ready() -> None:
    site = app()
    assert call(site, "GET", "/healthz").status == 200
    assert call(site, "GET", "/readyz").problem == "not-ready"
    site.site.engine.load_error = "no weights here; install them"
    assert call(site, "GET", "/readyz").json()["detail"] == "no weights here; install them"


def test_a_mistake_of_the_server_shows_nothing_of_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("a secret of the inside")

    site = app()
    site.middleware.app = broken
    response = call(site, "GET", "/healthz", x_request_id="find-me")
    assert response.status == 500 and response.problem == "internal" and b"secret" not in response.body
    assert "find-me" in caplog.text and "a secret of the inside" in caplog.text


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    for path in ("/", "/docs", "/v1/about", "/no/such"):
        headers = call(app(), "GET", path).headers
        assert (
            headers["x-content-type-options"] == "nosniff"
            and "default-src 'none'" in headers["content-security-policy"]
        )
