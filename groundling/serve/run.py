"""Listen, serve, and shut down gracefully: requests that were accepted are finished first."""

from __future__ import annotations

import logging
import math
import socket
import sys

import uvicorn

from groundling.errors import GroundlingError
from groundling.serve.app import Site
from groundling.serve.protocol import BoundedProtocol
from groundling.serve.settings import Limits, Settings

CONNECTIONS = 1000  # open at once, idle ones too


def listen(settings: Settings) -> socket.socket:
    """The socket, bound before anything slow happens, so that a port in use is an error at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)  # from now on clients wait instead of being refused
    except OSError as error:
        listener.close()
        raise GroundlingError(
            f"cannot listen on {settings.host} port {settings.port} ({error.strerror}): choose another with --port"
        ) from error
    return listener


def address(settings: Settings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}/"


def serve(settings: Settings, listener: socket.socket) -> None:
    """Until a signal ends it."""
    with listener:
        _serve(Site.of(settings), listener)


def _serve(site: Site, listener: socket.socket) -> None:
    config = uvicorn.Config(
        site.app(),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=grace(site.settings.limits),
    )
    uvicorn.Server(config).run(sockets=[listener])


def grace(limits: Limits) -> int:
    """Seconds after a signal in which every accepted request comes to its end: its body, then its response."""
    return math.ceil(limits.receive + limits.deadline) + 5


def log_to_stderr(quiet: bool) -> None:
    """One JSON object a line for each request; what the server has to say itself as plain lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("groundling.access")
    access.handlers, access.propagate = [handler], False
    access.setLevel(logging.WARNING if quiet else logging.INFO)
    for name in ("uvicorn.error", "uvicorn"):
        logging.getLogger(name).setLevel(logging.WARNING)
