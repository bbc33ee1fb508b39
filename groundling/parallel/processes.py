"""Workers that are processes of this machine. They end with their parent, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import wait
from typing import Any, NoReturn

from groundling.errors import GroundlingError
from groundling.parallel import Item, Result, Start, started_on_one_thread
from groundling.progress import ignore_interrupt, without_interrupt

AHEAD = 4  # items per worker that are under way, or wait for their turn: the bound on memory

_work: Callable[[Any], Any] | None = None  # in a worker


def map(
    start: Start[Item, Result], items: Iterable[Item], workers: int, called: Callable[[Item], str] = str
) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")  # forking a process with threads may deadlock
    pool = ProcessPoolExecutor(workers, context, _start, (start,))
    running: deque[tuple[Item, Future[Result]]] = deque()

    def first() -> Result:
        item, future = running[0]
        try:
            result = future.result()
        except BrokenProcessPool as error:
            raise GroundlingError(
                f"a worker process died at {called(item)} or one of the {len(running) - 1} after it (out of memory?); "
                "run the same command again, with fewer --workers"
            ) from error
        running.popleft()
        return result

    try:
        for item in items:
            with without_interrupt():  # submitting starts the workers
                running.append((item, pool.submit(_do, item)))
            if len(running) >= AHEAD * workers:
                yield first()
        while running:
            yield first()
    except (KeyboardInterrupt, GeneratorExit):  # nobody takes what is under way, and files are written in one step
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start(start: Start[Any, Any]) -> None:
    global _work
    ignore_interrupt()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        _work = started_on_one_thread(start)
    except Exception as error:  # raised with the first item: a pool only tells that its worker has died
        _work = partial(_fail, error)


def _fail(error: Exception, _: Any) -> NoReturn:
    raise error


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
