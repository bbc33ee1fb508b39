"""Ctrl-C and SIGTERM without a lost step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from groundling.errors import GroundlingError


class Stopped(GroundlingError):
    """A signal ended the run after its state was saved."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class Interrupt:
    """Within it, a first SIGINT or SIGTERM only sets `signum`, to be read between steps; a second Ctrl-C does not wait.

    Where there is nothing to finish, within `at_once()`, the first one raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        again, self.signum = signum == signal.SIGINT and self.signum != 0, signum
        if self._at_once or again:
            raise KeyboardInterrupt
