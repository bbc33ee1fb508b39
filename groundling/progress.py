"""Long work: the one progress bar, on standard error and hidden without a terminal; pauses of the collector; threads
that wait; Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Thing = TypeVar("Thing")
SECONDS = 0.2  # between two looks at how far steps have come
PASSIVE = {  # OpenMP is torch's pool
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    "OPENCV_THREAD_POOL_ACTIVE_WAIT_MAIN": "0",
    "OPENCV_THREAD_POOL_ACTIVE_WAIT_WORKER": "0",
}

SHORT = {  # a wait of a millisecond at most: the next step of the same training comes sooner than a thread wakes
    "GOMP_SPINCOUNT": "10000",
    "KMP_BLOCKTIME": "1",
}


def track(things: Iterable[Thing], what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Thing]:
    """Yield `things`, showing how many are done and how long the rest will take."""
    if quiet:  # and what draws the bar is not imported
        yield from things
        return
    with _bar() as progress:
        yield from progress.track(things, total=total, description=what)


def track_steps(
    things: Iterable[Thing], what: str, done: Callable[[], int], total: Callable[[], int | None]
) -> Iterator[Thing]:
    """Yield `things`, showing how many steps are done; a thing takes many, and they may be those of other processes.

    `total`: None as long as it is not known.
    """
    with _bar() as progress:
        task, over = progress.add_task(what, total=total()), threading.Event()

        def watch() -> None:
            while not over.wait(SECONDS):
                progress.update(task, completed=done(), total=total())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield from things
        finally:
            over.set()
            thread.join()
            progress.update(task, completed=done(), total=total())


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    return Progress(*columns, *times, console=Console(stderr=True))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Large files become millions of objects and none is garbage: looking for it would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def wait_passively() -> None:
    """Threads without work sleep, where nobody said otherwise: on a busy machine threads that spin take the cores of
    those that work. Libraries read this when they are loaded, so one that is there already goes on as it did.
    """
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)


def wait_shortly() -> None:
    """Threads of a training spin for a moment, then sleep, where nobody said otherwise. The libraries let them spin for
    many milliseconds: two threads of small steps take almost three times the processor time then.
    """
    if "OMP_WAIT_POLICY" not in os.environ:  # which GOMP_SPINCOUNT would overrule
        for name, value in SHORT.items():
            os.environ.setdefault(name, value)


@contextmanager
def without_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back while workers are started: it is the parent's to handle, and they never receive it.

    Windows cannot hold it back; workers ignore it there by `ignore_interrupt`.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupt() -> None:
    """In a worker: Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
