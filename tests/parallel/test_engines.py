"""Work shared out among processes: in order, errors come back, and a death is told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from groundling.errors import DataError, GroundlingError
from groundling.parallel import Engine


def starts(base: int) -> Callable[[int], tuple[int, int]]:
    """A worker that knows `base` from its start, and its process."""

    def work(item: int) -> tuple[int, int]:
        if item == 13:
            raise DataError("thirteen cannot be read")
        if item == 66:
            os._exit(9)
        return base + item, os.getpid()

    return work


def test_one_worker_is_this_process() -> None:
    assert list(Engine().map(partial(starts, 10), [3, 1, 2])) == [
        (13, os.getpid()),
        (11, os.getpid()),
        (12, os.getpid()),
    ]


def test_processes_answer_in_order_and_each_is_started_once() -> None:
    found = list(Engine(2).map(partial(starts, 100), range(12)))
    assert [value for value, _ in found] == [100 + i for i in range(12)]
    assert os.getpid() not in {pid for _, pid in found} and len({pid for _, pid in found}) <= 2


def test_what_a_process_could_not_read_is_told_here() -> None:
    with pytest.raises(DataError, match="thirteen cannot be read"):
        list(Engine(2).map(partial(starts, 0), [1, 13, 2]))


def sleeps() -> Callable[[float], float]:
    def work(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    return work


def test_who_stops_does_not_wait_for_the_work_that_is_under_way() -> None:
    """A shard of labels took half a minute after Ctrl-C."""
    found = Engine(2).map(sleeps, [0.0, 60.0, 60.0])
    assert next(found) == 0
    start = time.monotonic()
    found.close()  # type: ignore[attr-defined]
    assert time.monotonic() - start < 20


def test_an_interrupt_stops_the_work_that_is_under_way() -> None:
    threading.Timer(5, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(Engine(2).map(sleeps, [60.0, 60.0]))
    assert time.monotonic() - start < 30


def test_a_process_that_dies_is_told_with_what_it_had() -> None:
    with pytest.raises(GroundlingError, match="died at item 66 or one of the 1 after it .*fewer --workers"):
        list(Engine(2).map(partial(starts, 0), [66, 1], lambda item: f"item {item}"))
