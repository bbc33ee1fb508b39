"""The two files of a region store, and the steps of reading them that readers and writers share."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from groundling.errors import DataError
from groundling.regions import records
from groundling.regions.records import RECORD, Header, Index, Layout

DATA, INDEX = "regions.bin", "index.bin"
SYNC = 1 << 28  # at most so many bytes (or one record) are at risk when the machine loses power
CHUNK = 1 << 20


def mapped_index(folder: Path) -> Index:
    """The index of a store, memory-mapped; only its head is read."""
    path = folder / INDEX
    try:
        with open(path, "rb") as file:
            buffer = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise DataError(f"cannot read {path}: {error}") from error
    return records.parse_index(buffer, str(path))


def header_at(file: int, offset: int, size: int, layout: Layout) -> Header | None:
    """The header of the record at `offset`; None unless it is whole and its body ends before `size`."""
    if offset >= size:
        return None
    header = records.parse_record(os.pread(file, RECORD.size + records.ID_MAX, offset))
    if header is None or offset + header.length + layout.body(header.count) > size:
        return None
    return header


def body_is_sound(file: int, offset: int, header: Header, layout: Layout) -> bool:
    at, left, crc = offset + header.length, layout.body(header.count), 0
    while left:
        chunk = os.pread(file, min(left, CHUNK), at)
        if not chunk:
            return False
        crc, at, left = zlib.crc32(chunk, crc), at + len(chunk), left - len(chunk)
    return crc == header.crc


def scan(file: int, start: int, size: int, layout: Layout) -> Iterator[tuple[int, Header, int]]:
    """Offset, header and end of every whole record, up to the first that is not.

    Bodies are read only where they may not have reached the disk before a power cut: the last SYNC bytes.
    """
    while start < size:
        header = header_at(file, start, size, layout)
        if header is None:
            return
        end = start + header.length + layout.body(header.count)
        if end > size - SYNC and not body_is_sound(file, start, header, layout):
            return
        yield start, header, end
        start = end
