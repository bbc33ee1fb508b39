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
from groundling.files import open_regular
from groundling.regions.importers.raw import MAX_BYTES, NAMES, Array, Budget, Entry, Raw, named

FORMAT = "hdf5"
LOOKS_FOR = "an HDF5 file (.h5, .hdf5) with a group per image, ID_features and ID_boxes, or tables and their ids"

MAGIC = b"\x89HDF\r\n\x1a\n"
IDS = ("image_id", "image_ids", "ids", "img_id", "img_ids")


def claims(path: Path) -> bool:
    if not path.is_file():
        return False
    with open_regular(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def entries(path: Path) -> Iterator[Entry]:
    with opened(path) as file, guarded(str(path)):
        names = [str(name, "utf-8", "replace") if isinstance(name, bytes) else name for name in file]
        ids = next((name for name in IDS if name in names), None)
        if ids is not None:
            table = member(file, ids, str(path))
            loaders, total = _tables(path, file, table, ids), len(table)
        elif names and hasattr(member(file, names[0], str(path)), "keys"):
            loaders, total = ((id, partial(_group, path, file, id)) for id in names), len(names)
        else:
            members = [name.removesuffix("_features") for name in names if name.endswith("_features")]
            if not members:
                raise DataError(f"{path}: expected {LOOKS_FOR}; has {', '.join(names[:5]) or 'nothing'}")
            loaders, total = ((id, partial(_datasets, path, file, id)) for id in members), len(members)
        for number, (id, load) in enumerate(loaders, 1):
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
    if not path.is_file():  # HDF5 would wait for a pipe
        raise DataError(f"{path}: not a regular file")
    with guarded(str(path)):
        return h5py.File(path, "r")


def member(group: Any, name: str, where: str) -> Any:
    """A group or dataset by its name, None where there is none; DataError where it is a link or lies in another file.

    Links, virtual datasets and external storage name other files of this machine, which nobody asked us to read.
    """
    import h5py

    link = group.get(name, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise DataError(f"{where}: {name} is a link to somewhere else; copy what it points to into the file")
    item = group[name]
    if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
        raise DataError(f"{where}: {name} is kept in other files; copy it into this one")
    return item


def read(dataset: Any, budget: Budget, row: int | None = None) -> Array:
    """A dataset, or one row of it, after a look at its size and at the size of the pieces that it is packed in."""
    if dataset.dtype.hasobject and (row is None or dataset.ndim > 1):
        raise DataError(f"{budget.where}: {dataset.dtype} where numbers are expected")
    budget.spend(dataset.shape if row is None else dataset.shape[1:], dataset.dtype)
    if dataset.chunks is not None and math.prod(dataset.chunks) * dataset.dtype.itemsize > MAX_BYTES:
        raise DataError(f"{budget.where}: packed in pieces of {dataset.chunks}; at most {MAX_BYTES:,} bytes are read")
    return np.asarray(dataset[()] if row is None else dataset[row])


def _group(path: Path, file: Any, id: str) -> Raw:
    with guarded(where := f"{path}, {id}"):
        group = member(file, id, where)
        if not hasattr(group, "keys"):
            raise DataError(f"{where}: a dataset among groups; expected {LOOKS_FOR}")
        budget = Budget(where)
        arrays = {name: read(member(group, name, where), budget) for name in group if _known(name)}
        return named({**_attributes(group, budget), **arrays}, where)


def _attributes(group: Any, budget: Budget) -> dict[str, Any]:
    """Those that we know by name; of the others nothing is read."""
    attributes = {}
    for name in filter(_known, group.attrs):
        about = group.attrs.get_id(name)
        if about.dtype.hasobject:
            raise DataError(f"{budget.where}: the attribute {name} is {about.dtype} where numbers are expected")
        budget.spend(about.shape, about.dtype)
        attributes[name] = group.attrs[name]
    return attributes


def _datasets(path: Path, file: Any, id: str) -> Raw:
    with guarded(where := f"{path}, {id}"):
        kinds = [kind for names in NAMES.values() for kind in names]
        arrays_by_kind = {kind: member(file, f"{id}_{kind}", where) for kind in kinds}
        budget = Budget(where)
        return named(
            {kind: read(dataset, budget) for kind, dataset in arrays_by_kind.items() if dataset is not None}, where
        )


def _tables(path: Path, file: Any, ids: Any, name_of_ids: str) -> Iterator[tuple[str, Callable[[], Raw]]]:
    tables = {name: member(file, name, str(path)) for name in file if _known(name)}
    length = len(ids)
    short = [name for name, table in tables.items() if len(table) != length]
    if short:
        raise DataError(f"{path}: {short[0]} has {len(tables[short[0]])} rows, {name_of_ids} has {length}")
    seen: set[str] = set()
    for row in range(length):
        id = read(ids, Budget(str(path)), row).item()
        name = id.decode("utf-8", "replace") if isinstance(id, bytes) else str(id)
        if name in seen:  # a file of a few bytes can say that it has 10^12 rows, all alike
            raise DataError(f"{path}: row {row} of {name_of_ids} has the id {name[:60]!r}, as one before it has")
        seen.add(name)
        yield name, partial(_row, path, tables, row, name)


def _row(path: Path, tables: Mapping[str, Any], row: int, id: str) -> Raw:
    with guarded(where := f"{path}, {id}"):
        budget = Budget(where)
        return named({name: read(table, budget, row) for name, table in tables.items()}, where)


def _known(name: str) -> bool:
    return any(name in names for names in NAMES.values())
