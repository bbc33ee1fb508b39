"""Errors as RFC 9457 problem details: what is wrong, and the cure. No traceback ever leaves the server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

MEDIA_TYPE = "application/problem+json"


@dataclass(eq=False)
class Problem(Exception):
    """Ends a request. `kind` names the sort of problem for programs; `detail` tells a person what to do."""

    status: int
    kind: str
    detail: str
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False  # the rest of the body was not read: the connection cannot be used again

    def __str__(self) -> str:
        return self.detail

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": f"urn:groundling:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_dict(), ensure_ascii=False).encode()


def bad(detail: str, kind: str = "bad-request") -> Problem:
    return Problem(400, kind, detail)


def unfit(detail: str, kind: str = "unreadable-image") -> Problem:
    """The request was understood, but what it holds cannot be worked with."""
    return Problem(422, kind, detail)


def overloaded(detail: str, seconds: int = 1) -> Problem:
    return Problem(503, "overloaded", detail, {"Retry-After": str(max(1, seconds))})


def too_large(detail: str) -> Problem:
    return Problem(413, "too-large", detail, close=True)


def internal() -> Problem:
    return Problem(
        500, "internal", "the server made a mistake; its log says more under the request id of this response"
    )
