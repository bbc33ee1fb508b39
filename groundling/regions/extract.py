"""Regions of many image files by a source, by one or several workers, into a store.

Results are written in the order of the images, by one process, computed on one thread each: the same images give the
same bytes, whatever the number of workers and however often the work was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from groundling.errors import DataError, MissingExtra
from groundling.parallel import ALONE, Engine, one_thread
from groundling.regions.jobs import Job
from groundling.regions.media import of_media
from groundling.regions.sources import source
from groundling.regions.store import Writer
from groundling.tensors import Regions, RegionSource

FEW = 8  # images for which one more process is not worth its start

Arrays = dict[str, NDArray[Any]]  # Regions on their way between processes: arrays need no shared memory


@dataclass(frozen=True)
class Done:
    """What became of one image: in the store before, added now, or left out for a reason."""

    id: str
    added: bool = False
    problem: str | None = None


def extract(
    jobs: Sequence[Job], name: str, parameters: Mapping[str, Any], out: Path | str, engine: Engine = ALONE
) -> Generator[Done, None, None]:
    """Add the regions of every image to the store at `out`, one Done each, in order; finish the store at the end.

    A file that cannot be read, or of which the source makes nothing, is left out and its Done says why.
    """
    with one_thread():
        make = source(name, **parameters)
        with Writer(out, make.fingerprint) as writer:
            waiting = [job for job in jobs if job.id not in writer.done]
            yield from (Done(job.id) for job in jobs if job.id in writer.done)
            each = replace(engine, workers=min(engine.workers, 1 + len(waiting) // FEW))
            start = partial(partial, _regions, make) if each == ALONE else partial(_worker, name, dict(parameters))
            results = each.map(start, waiting, lambda job: f"image {job.id!r}")
            for job, arrays in zip(waiting, results, strict=True):
                problem = arrays if isinstance(arrays, str) else _add(writer, job, arrays)
                yield Done(job.id, added=problem is None, problem=problem)


def _add(writer: Writer, job: Job, arrays: Arrays) -> str | None:
    try:
        tensors: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        writer.add(job.id, Regions(**tensors))
    except DataError as error:
        return str(error)
    return None


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


def _worker(name: str, parameters: Mapping[str, Any]) -> Callable[[Job], Arrays | str]:
    """In a worker: what finds the regions of files, with a source that is made once."""
    return partial(_regions, source(name, **parameters))
