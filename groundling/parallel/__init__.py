"""Work shared out among workers: processes of this machine, or actors of a Ray cluster.

A worker is started once, which loads its model, and then does one item after the other, on one thread: a result does
not depend on who made it. Results come in the order of the items.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

LOCAL, RAY = "local", "ray"
OPENCV = "OPENCV_FOR_THREADS_NUM"  # environment variable that OpenCV reads when it is imported
OPENMP = "OMP_NUM_THREADS"  # and torch
AVAILABLE_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Item = TypeVar("Item")
Result = TypeVar("Result")
Start = Callable[[], Callable[[Item], Result]]  # makes a worker; it and what it holds can be pickled


@dataclass(frozen=True)
class Engine:
    """Who does the work: so many processes (one: this one), or so many actors of Ray."""

    workers: int = 1
    name: str = LOCAL
    address: str = ""  # of a Ray cluster; empty: one is started here

    def map(
        self, start: Start[Item, Result], items: Iterable[Item], called: Callable[[Item], str] = str
    ) -> Iterator[Result]:
        """The result of each item. An error of groundling that a worker raises is raised here.

        GroundlingError where a process dies: it names the item that was waited for as `called` does.
        """
        if self.name == RAY:
            from groundling.parallel import actors

            yield from actors.map(start, list(items), self.workers, self.address)
        elif self.workers > 1:
            from groundling.parallel import processes

            yield from processes.map(start, items, self.workers, called)
        else:
            with one_thread():
                yield from map(start(), items)


ALONE = Engine()  # this process does all of it


class Counter:
    """A number that so many processes of this machine count up together."""

    def __init__(self, processes: int = 1) -> None:
        context = multiprocessing.get_context("spawn")
        self._lock: Any = context.Lock() if processes > 1 else nullcontext()
        self._number: Any = context.RawValue("q", 0) if processes > 1 else SimpleNamespace(value=0)

    def add(self) -> None:
        with self._lock:
            self._number.value += 1

    @property
    def value(self) -> int:
        return int(self._number.value)  # without the lock: a process may have died with it


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """With so many threads of PyTorch."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how they are shared out among threads: one thread, one result."""
    variables = {name: os.environ.get(name) for name in (OPENCV, OPENMP)}
    try:
        with torch_threads(1):
            set_one_thread()
            yield
    finally:
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def set_one_thread() -> None:
    os.environ[OPENCV] = os.environ[OPENMP] = "1"  # torch reads the latter when it is imported, `cores` whenever asked
    if "torch" in sys.modules:  # captions by onnxruntime need none
        import torch

        torch.set_num_threads(1)


def started_on_one_thread(start: Start[Item, Result]) -> Callable[[Item], Result]:
    """A worker, which computes on one thread, whatever it has imported."""
    set_one_thread()
    work = start()
    set_one_thread()
    return work
