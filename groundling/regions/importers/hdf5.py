"""HDF5 files. Three layouts are recognised, with the names of `raw.NAMES` inside:

- a group per image: `ID/features`, `ID/boxes`, `ID/image_w`, ... (also as attributes of the group);
- datasets per image: `ID_features`, `ID_boxes`, `ID_size`, `ID_cls_prob`, as Meshed-Memory Transformer has them;
- tables over all images: `image_id` or `ids` (N,), `features` (N, R, D), `boxes` (N, R, 4), `num_boxes` (N,), ...
Files without ids inside (ids in a pickle beside it) cannot be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.regions.importers.raw import MAX_BYTES, NAMES, Array, Entry, Raw, named

FORMAT = "hdf5"
LOOKS_FOR = "an HDF5 file (.h5, .hdf5) with a group per image, ID_features and ID_boxes, or tables and their ids"

MAGIC = b"\x89HDF\r\n\x1a\n"
IDS = ("image_id", "image_ids", "ids", "img_id", "img_ids")


def claims(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def entries(path: Path) -> Iterator[Entry]:
    with opened(path) as file, guarded(str(path)):
        names = [str(name, "utf-8", "replace") if isinstance(name, bytes) else name for name in file]
        ids = next((name for name in IDS if name in file), None)
        if ids is not None:
            found, total = _tables(path, file, ids), len(file[ids])
        elif names and hasattr(file[names[0]], "keys"):
            found, total = ((id, partial(_group, path, file, id)) for id in names), len(names)
        else:
            members = [name.removesuffix("_features") for name in names if name.endswith("_features")]
            if not members:
                raise DataError(f"{path}: expected {LOOKS_FOR}; has {', '.join(names[:5]) or 'nothing'}")
            found, total = ((id, partial(_datasets, path, file, id)) for id in members), len(members)
        for number, (id, load) in enumerate(found, 1):
            yield Entry(id, f"{path}, {id}", number / total, load)


@contextmanager
def guarded(where: str) -> Iterator[None]:
    """HDF5 reports damage anywhere and in many types: all of them become a DataError with a name."""
    try:
        yield
    except GroundlingError:
        raise
    except Exception as error:
        raise DataError(f"{where}: unreadable: {type(error).__name__}: {error}") from error


def opened(path: Path) -> Any:
    """The file, to be used in `with`."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("HDF5 files need h5py: pip install 'groundling[hdf5]'") from error
    with guarded(str(path)):
        return h5py.File(path, "r")


def read(dataset: Any, where: str, row: int | None = None) -> Array:
    """A dataset, or one row of it, after a look at its size."""
    shape = dataset.shape if row is None else dataset.shape[1:]
    if math.prod(shape) * dataset.dtype.itemsize > MAX_BYTES:
        raise DataError(f"{where}: {shape} numbers for one image are more than {MAX_BYTES:,} bytes")
    return np.asarray(dataset[()] if row is None else dataset[row])


def _group(path: Path, file: Any, id: str) -> Raw:
    with guarded(where := f"{path}, {id}"):
        group = file[id]
        if not hasattr(group, "keys"):
            raise DataError(f"{where}: a dataset among groups; expected {LOOKS_FOR}")
        arrays = {name: read(group[name], where) for name in group if _known(name)}
        return named({**dict(group.attrs), **arrays}, where)


def _datasets(path: Path, file: Any, id: str) -> Raw:
    with guarded(where := f"{path}, {id}"):
        kinds = [kind for names in NAMES.values() for kind in names if f"{id}_{kind}" in file]
        return named({kind: read(file[f"{id}_{kind}"], where) for kind in kinds}, where)


def _tables(path: Path, file: Any, ids: str) -> Iterator[tuple[str, Callable[[], Raw]]]:
    tables = {name: file[name] for name in file if _known(name)}
    length = len(file[ids])
    short = [name for name, table in tables.items() if len(table) != length]
    if short:
        raise DataError(f"{path}: {short[0]} has {len(tables[short[0]])} rows, {ids} has {length}")
    for row in range(length):
        id = read(file[ids], str(path), row).item()
        name = id.decode("utf-8", "replace") if isinstance(id, bytes) else str(id)
        yield name, partial(_row, path, tables, row, name)


def _row(path: Path, tables: Mapping[str, Any], row: int, id: str) -> Raw:
    with guarded(where := f"{path}, {id}"):
        return named({name: read(table, where, row) for name, table in tables.items()}, where)


def _known(name: str) -> bool:
    return any(name in names for names in NAMES.values())
