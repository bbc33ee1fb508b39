"""Features that others extracted -> a region store. Each format is a module with `FORMAT` (its name), `LOOKS_FOR` (what
it needs, in words), `claims(path) -> bool` and `entries(path) -> Iterator[Entry]`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from groundling.errors import DataError, GroundlingError
from groundling.regions.fingerprints import IMPORTED
from groundling.regions.importers.raw import Array, Entry, Size, regions
from groundling.regions.store import Writer
from groundling.tensors import Regions
from groundling.types import Fingerprint

FORMATS = ("tsv", "gvd", "hdf5", "arrays")  # in order of being asked


@dataclass(frozen=True)
class Step:
    """What became of one image."""

    id: str
    share: float  # of the source that is read now
    added: bool = False
    problem: str | None = None


def entries(path: Path, format: str = "auto") -> Iterator[Entry]:
    """The images of a source in the order of the file; with "auto", the first format that recognises it."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if format != "auto":
        return _read(_module(format), path)
    for name in FORMATS:
        if _module(name).claims(path):
            return _read(_module(name), path)
    known = "; ".join(f"{name}: {_module(name).LOOKS_FOR}" for name in FORMATS)
    raise DataError(f"{path}: not a known format of regions. Known are {known}")


def copy(
    source: Iterable[Entry],
    out: Path,
    name: str,
    *,
    labels: Sequence[str] = (),
    size_of: Callable[[str], Size | None] = lambda id: None,
    skip_bad: bool = False,
    sure: float = 0.0,
    per_frame: int = 0,
) -> Generator[Step, None, None]:
    """Write every image of `source` that `out` does not have yet, one Step each; the store is finished at the end.

    The fingerprint is the name, the length of the features and the labels: what was extracted alike must be named
    alike. A bad image is an error, or with `skip_bad` a Step with a problem. `sure`, `per_frame`: see `kept`; they are
    part of the fingerprint.
    """
    chosen: dict[str, Any] = {name: x for name, x in (("sure", sure), ("per_frame", per_frame)) if x}
    waiting = iter(source)
    seen, dim = _first_good(waiting, skip_bad)
    with Writer(out, Fingerprint(name, IMPORTED, dim, chosen, labels=tuple(labels))) as writer:
        for entry in chain(seen, waiting):
            if entry.id in writer.done:
                yield Step(entry.id, entry.share)
                continue
            try:
                _add(writer, entry, size_of, sure, per_frame)
                step = Step(entry.id, entry.share, added=True)
            except DataError as error:
                if not skip_bad:
                    raise
                step = Step(entry.id, entry.share, problem=str(error))
            yield step


def _add(
    writer: Writer, entry: Entry, size_of: Callable[[str], Size | None], sure: float = 0.0, per_frame: int = 0
) -> None:
    chosen = kept(regions(entry.load(), entry.where, size_of(entry.id)), sure, per_frame)
    try:
        writer.add(entry.id, chosen)
    except DataError as error:
        raise DataError(f"{entry.where}: {error}") from error


def kept(regions: Regions, sure: float = 0.0, per_frame: int = 0) -> Regions:
    """Regions of an image, or of the frames of a clip, as a store has them: first the first of every frame.

    So the first regions of a clip, which are those that a model sees, are of all its frames. `sure`: only those whose
    likeliest class has a greater score, or the best one where none has. `per_frame`: at most so many of each; 0: all.
    """
    certain = torch.ones_like(regions.valid[0])
    if sure and regions.scores.shape[-1]:
        best = regions.scores[0].amax(-1)
        certain = (best > sure) | ((best <= sure).all() & (best == best.max()))
    frame = regions.frame[0]
    turn = _turns(frame.numpy(), certain.numpy())
    order = torch.from_numpy(np.lexsort((frame.numpy(), turn.numpy())))
    order = order[certain[order] & ((turn[order] < per_frame) if per_frame else certain[order])]
    names = ("feats", "boxes", "valid", "frame", "labels", "scores")
    return replace(regions, **{name: getattr(regions, name)[:, order] for name in names})


def _turns(frame: Array, certain: Array) -> torch.Tensor:
    """How many certain regions of its frame come before each region."""
    order = np.argsort(frame, kind="stable")
    before = np.cumsum(certain[order]) - certain[order]
    first = np.append(True, frame[order][1:] != frame[order][:-1])
    turns = np.empty(len(frame), np.int64)
    turns[order] = before - np.maximum.accumulate(np.where(first, before, 0))
    return torch.from_numpy(turns)


def _first_good(waiting: Iterator[Entry], skip_bad: bool) -> tuple[list[Entry], int]:
    """The images up to the first that can be read, and the length of its features."""
    seen: list[Entry] = []
    problem: DataError | None = None
    for entry in waiting:
        seen.append(entry)
        try:
            raw = entry.load()
            return seen, regions(raw, entry.where, raw.size or (1e5, 1e5)).feats.shape[-1]
        except DataError as error:
            problem = problem or error
            if not skip_bad:
                raise
    raise problem or DataError("the source holds no images")


def _module(name: str) -> ModuleType:
    if name not in FORMATS:
        raise GroundlingError(f"unknown format {name!r}; there are auto, {', '.join(FORMATS)}")
    return importlib.import_module(f"{__name__}.{name}")


def _read(module: ModuleType, path: Path) -> Iterator[Entry]:
    entries: Iterator[Entry] = module.entries(path)
    return entries
