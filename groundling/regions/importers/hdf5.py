"""HDF5 files. Three layouts are recognised, with the names of `raw.NAMES` inside:

- a group per image: `ID/features`, `ID/boxes`, `ID/image_w`, ... (also as attributes of the group);
- datasets per image: `ID_features`, `ID_boxes`, `ID_size`, `ID_cls_prob`, as Meshed-Memory Transformer has them;
- tables over all images: `image_id` or `ids` (N,), `features` (N, R, D), `boxes` (N, R, 4), `num_boxes` (N,), ...
Files without ids inside (ids in a pickle beside it) cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from groundling.errors import DataError, MissingExtra
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
    with opened(path) as file:
        names = list(file)
        ids = next((name for name in IDS if name in file), None)
        if ids is not None:
            found = _tables(path, file, ids)
        elif any(_is_group(file, name) for name in names[:1]):
            found = ((id, partial(_group, path, file, id)) for id in names)
        else:
            found = _datasets(path, file, names)
        total = len(file[ids]) if ids is not None else len(names)
        for number, (id, load) in enumerate(found, 1):
            yield Entry(id, f"{path}, {id}", min(number / total, 1.0), load)


def opened(path: Path) -> Any:
    """The file, to be used in `with`; DataError names it when it cannot be opened."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("HDF5 files need h5py: pip install 'groundling[hdf5]'") from error
    try:
        return h5py.File(path, "r")
    except Exception as error:
        raise DataError(f"{path}: not a readable HDF5 file: {error}") from error


def read(dataset: Any, where: str, row: int | None = None) -> Array:
    """A dataset, or one row of it, after a look at its size."""
    import numpy as np

    try:
        shape = dataset.shape if row is None else dataset.shape[1:]
        if int(np.prod(shape)) * dataset.dtype.itemsize > MAX_BYTES:
            raise DataError(f"{where}: {shape} numbers for one image are more than {MAX_BYTES:,} bytes")
        return np.asarray(dataset[()] if row is None else dataset[row])
    except DataError:
        raise
    except Exception as error:  # HDF5 reports damage in many types
        raise DataError(f"{where}: unreadable: {error}") from error


def _is_group(file: Any, name: str) -> bool:
    import h5py

    return isinstance(_member(file, name, name), h5py.Group)


def _member(file: Any, name: str, where: str) -> Any:
    try:
        return file[name]
    except Exception as error:
        raise DataError(f"{where}: unreadable: {error}") from error


def _group(path: Path, file: Any, id: str) -> Raw:
    where = f"{path}, {id}"
    group = _member(file, id, where)
    if not hasattr(group, "keys"):
        raise DataError(f"{where}: a dataset among groups; expected {LOOKS_FOR}")
    arrays = {name: read(_member(group, name, where), where) for name in group if _known(name)}
    return named({**dict(group.attrs), **arrays}, where)


def _datasets(path: Path, file: Any, names: list[str]) -> Iterator[tuple[str, Any]]:
    ids = [name.removesuffix("_features") for name in names if name.endswith("_features")]
    if not ids:
        shown = ", ".join(names[:5]) or "nothing"
        raise DataError(f"{path}: expected {LOOKS_FOR}; has {shown}")
    kinds = [kind for group in NAMES.values() for kind in group]
    for id in ids:
        members = {kind: f"{id}_{kind}" for kind in kinds if f"{id}_{kind}" in file}
        yield id, partial(_joined, path, file, id, members)


def _joined(path: Path, file: Any, id: str, members: Mapping[str, str]) -> Raw:
    where = f"{path}, {id}"
    return named({kind: read(_member(file, name, where), where) for kind, name in members.items()}, where)


def _tables(path: Path, file: Any, ids: str) -> Iterator[tuple[str, Any]]:
    tables = {name: file[name] for name in file if _known(name)}
    length = len(file[ids])
    short = [name for name, table in tables.items() if len(table) != length]
    if short:
        raise DataError(f"{path}: {short[0]} has {len(file[short[0]])} rows, {ids} has {length}")
    for row in range(length):
        id = read(file[ids], str(path), row).item()
        name = id.decode("utf-8", "replace") if isinstance(id, bytes) else str(id)
        yield name, partial(_row, path, tables, row, name)


def _row(path: Path, tables: Mapping[str, Any], row: int, id: str) -> Raw:
    where = f"{path}, {id}"
    return named({name: read(table, where, row) for name, table in tables.items()}, where)


def _known(name: str) -> bool:
    return any(name in names for names in NAMES.values())
