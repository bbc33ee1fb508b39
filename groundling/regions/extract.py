"""Regions of many image files by a source, in several processes, into a store.

Results are written in the order of the images, by one process, computed on one thread each: the same images give the
same bytes, whatever the number of workers and however often the work was stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.progress import ignore_interrupt, without_interrupt
from groundling.regions.jobs import Job
from groundling.regions.media import of_media
from groundling.regions.sources import source
from groundling.regions.store import Writer
from groundling.tensors import Regions, RegionSource

FEW = 8  # images for which one more process is not worth its start
AHEAD = 4  # images per worker that may wait for their turn to be written: the bound on memory

Arrays = dict[str, NDArray[Any]]  # Regions on their way between processes: arrays need no shared memory


@dataclass(frozen=True)
class Done:
    """What became of one image: in the store before, added now, or left out for a reason."""

    id: str
    added: bool = False
    problem: str | None = None


def extract(
    jobs: Sequence[Job], name: str, parameters: Mapping[str, Any], out: Path | str, workers: int = 1
) -> Generator[Done, None, None]:
    """Add the regions of every image to the store at `out`, one Done each, in order; finish the store at the end.

    A file that cannot be read, or of which the source makes nothing, is left out and its Done says why.
    """
    with _one_thread():
        make = source(name, **parameters)
        with Writer(out, make.fingerprint) as writer:
            waiting = [job for job in jobs if job.id not in writer.done]
            yield from (Done(job.id) for job in jobs if job.id in writer.done)
            workers = min(workers, 1 + len(waiting) // FEW)
            results = _alone(make, waiting) if workers == 1 else _together(name, parameters, waiting, workers)
            for job, arrays in results:
                problem = arrays if isinstance(arrays, str) else _add(writer, job, arrays)
                yield Done(job.id, added=problem is None, problem=problem)


def _add(writer: Writer, job: Job, arrays: Arrays) -> str | None:
    try:
        writer.add(job.id, Regions(**{name: torch.from_numpy(array) for name, array in arrays.items()}))
    except DataError as error:
        return str(error)
    return None


# ---------------------------------------------------------------- one process


def _alone(make: RegionSource, jobs: Iterable[Job]) -> Iterator[tuple[Job, Arrays | str]]:
    for job in jobs:
        yield job, _regions(make, job)


def _regions(make: RegionSource, job: Job) -> Arrays | str:
    """The regions of one file, or why there are none."""
    try:
        regions = of_media(make, job.path, job.frames, job.segment)
    except MissingExtra:
        raise
    except DataError as error:
        return str(error)
    except Exception as error:  # one odd image must not stop ten thousand others
        return f"{job.path}: the region source failed: {type(error).__name__}: {error}"
    arrays = {field.name: getattr(regions, field.name) for field in fields(regions)}
    return {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items() if tensor is not None}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums depend on how they are shared out among threads: one thread, one result."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- several processes

_made: RegionSource | None = None  # in a worker: built once


def _together(
    name: str, parameters: Mapping[str, Any], jobs: Iterable[Job], workers: int
) -> Iterator[tuple[Job, Arrays | str]]:
    """Results in the order of the jobs, at most AHEAD per worker at a time."""
    context = multiprocessing.get_context("spawn")  # forking a process with threads may deadlock
    pool = ProcessPoolExecutor(workers, context, _start, (name, dict(parameters)))
    running: deque[tuple[Job, Future[Arrays | str]]] = deque()
    try:
        for job in jobs:
            with without_interrupt():  # submitting starts the workers
                running.append((job, pool.submit(_work, job)))
            if len(running) >= AHEAD * workers:
                yield _next(running)
        while running:
            yield _next(running)
    finally:
        pool.shutdown(cancel_futures=True)


def _next(running: deque[tuple[Job, Future[Arrays | str]]]) -> tuple[Job, Arrays | str]:
    job, future = running[0]
    try:
        result = future.result()
    except BrokenProcessPool as error:
        raise GroundlingError(
            f"a worker process died at image {job.id!r} or one of the {len(running) - 1} after it (out of memory?); "
            "run the same command again, with fewer --workers"
        ) from error
    running.popleft()
    return job, result


def _start(name: str, parameters: dict[str, Any]) -> None:
    """Set up a worker, which does not outlive its parent."""
    global _made
    ignore_interrupt()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.environ["OPENCV_FOR_THREADS_NUM"] = "1"  # read when OpenCV is imported
    torch.set_num_threads(1)
    _made = source(name, **parameters)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work(job: Job) -> Arrays | str:
    assert _made is not None
    return _regions(_made, job)
