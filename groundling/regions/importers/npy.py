"""NumPy arrays from files of others: no pickles, and no more memory than one image may take."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from groundling.errors import DataError
from groundling.files import open_regular
from groundling.regions.importers.raw import Array, Budget

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others a few bytes may become gigabytes in one step


def read_npy(file: Path) -> Array:
    """One array; DataError names the file, whatever is wrong with it."""
    try:
        with open_regular(file) as opened:
            return _array(opened, Budget(str(file)))
    except Exception as error:
        raise _unreadable(file, "array", error) from error


def read_npz(file: Path) -> dict[str, Array]:
    """The arrays of an archive, by name; DataError names the file, whatever is wrong with it."""
    try:
        with open_regular(file) as opened, zipfile.ZipFile(opened) as archive:
            budget, arrays = Budget(str(file)), {}
            for member in archive.infolist():
                if member.compress_type not in METHODS:
                    raise DataError(f"{file}: {member.filename!r} is compressed in another way than np.savez does it")
                with archive.open(member) as packed:
                    arrays[member.filename.removesuffix(".npy")] = _array(packed, budget)
            return arrays
    except Exception as error:  # parsers of damaged files raise nearly every type there is
        raise _unreadable(file, "archive of arrays", error) from error


def _unreadable(file: Path, what: str, error: BaseException) -> DataError:
    if isinstance(error, DataError):
        return error
    if isinstance(error, MemoryError):
        return DataError(f"{file}: says that it needs more memory than there is; it is damaged")
    return DataError(f"{file}: not a readable {what}: {error}")


def _array(file: IO[bytes], budget: Budget) -> Array:
    """The array at the beginning of a file, once its header has been found to be modest and true."""
    if (start := file.read(4)) in (b"PK\x03\x04", b"PK\x05\x06"):
        raise DataError(f"{budget.where}: an archive under the name of a single array; call it .npz")
    file.seek(-len(start), io.SEEK_CUR)
    shape, by_columns, kind = _header(file)
    if kind.hasobject:
        raise ValueError("Object arrays cannot be loaded: they are pickles")
    budget.spend(shape, kind)
    content = file.read(math.prod(shape) * kind.itemsize)
    file.read(1)  # at the end of a member an archive compares its checksum
    flat = np.frombuffer(content, kind, count=math.prod(shape)) if kind.itemsize else np.empty(shape, kind).reshape(-1)
    return flat.reshape(shape, order="F" if by_columns else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the format is not known")
