"""Features that others extracted -> a region store. Each format is a module with `FORMAT` (its name), `LOOKS_FOR` (what
it needs, in words), `claims(path) -> bool` and `entries(path) -> Iterator[Entry]`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType

from groundling.errors import DataError, GroundlingError
from groundling.regions.fingerprints import IMPORTED
from groundling.regions.importers.raw import Entry, Size, regions
from groundling.regions.store import Writer
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
) -> Generator[Step, None, None]:
    """Write every image of `source` that `out` does not have yet, one Step each; the store is finished at the end.

    The fingerprint is the name, the length of the features and the labels: what was extracted alike must be named
    alike. A bad image is an error, or with `skip_bad` a Step with a problem.
    """
    waiting = iter(source)
    seen, dim = _first_good(waiting, skip_bad)
    with Writer(out, Fingerprint(name, IMPORTED, dim, labels=tuple(labels))) as writer:
        for entry in chain(seen, waiting):
            if entry.id in writer.done:
                yield Step(entry.id, entry.share)
                continue
            try:
                _add(writer, entry, size_of)
                step = Step(entry.id, entry.share, added=True)
            except DataError as error:
                if not skip_bad:
                    raise
                step = Step(entry.id, entry.share, problem=str(error))
            yield step


def _add(writer: Writer, entry: Entry, size_of: Callable[[str], Size | None]) -> None:
    found = regions(entry.load(), entry.where, size_of(entry.id))
    try:
        writer.add(entry.id, found)
    except DataError as error:
        raise DataError(f"{entry.where}: {error}") from error


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
    found: Iterator[Entry] = module.entries(path)
    return found
