"""The region store: the regions of many images in one folder, written once, read at random.

Reading is by position (`preadv`), not through a memory map of the features: resident memory stays flat, threads and
forked processes may share a store, and a file cut short is an error with a name instead of a dead process. Only the
index, some 50 bytes per image, is mapped. `records.py` says what the files hold.

    with Writer("regions", source.fingerprint) as writer:
        for id, image in images:
            if id not in writer.done:       # a second run goes on where the first was stopped
                writer.add(id, source(image))
    store = Store.open("regions")
    store.batch(["1000092795", "10002456"])
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.errors import DataError, GroundlingError
from groundling.regions import records
from groundling.regions.fingerprints import from_json, require
from groundling.regions.records import RECORD, Header, Index, Layout
from groundling.tensors import Regions
from groundling.types import Fingerprint

__all__ = ["Store", "Writer", "require"]

log = logging.getLogger(__name__)

DATA, INDEX = "regions.bin", "index.bin"
SYNC = 1 << 28  # at most so many bytes (or one record) are at risk when the machine loses power
CHUNK = 1 << 20


class Ids(Sequence[str]):
    """The ids of a store in the order of writing, read from the index when asked for."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self._index.id(row) for row in range(len(self))[at]]
        return self._index.id(range(len(self))[at])

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._index.find(id) is not None


class Store:
    """A finished store. An image's checksum is verified when it is first read; damage is a DataError with its id."""

    def __init__(self, path: Path, index: Index, file: int) -> None:
        self.path = path
        self.ids = Ids(index)
        self._index = index
        self._file = file
        self._verified = bytearray(len(index))
        self._index_verified = False
        weakref.finalize(self, os.close, file)

    @staticmethod
    def open(path: Path | str) -> Store:
        """Maps the index and reads its head; its cost does not depend on the number of images."""
        path = Path(path)
        if not (path / INDEX).exists():
            cure = "run the command that makes it again: it goes on where it was stopped"
            what = (
                f"the region store {path} is unfinished; {cure}"
                if (path / DATA).exists()
                else f"no region store at {path}"
            )
            raise DataError(what)
        index = records.parse_index(_mapped(path / INDEX), str(path / INDEX))
        try:
            file = os.open(path / DATA, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DataError(f"cannot read {path / DATA}: {error.strerror}; make the store again") from error
        return Store(path, index, file)

    @property
    def fingerprint(self) -> Fingerprint:
        return self._index.fingerprint

    @property
    def layout(self) -> Layout:
        return self._index.layout

    @property
    def regions(self) -> int:
        """Number of regions of all images."""
        return self._index.regions

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._find(id) is not None

    def __getitem__(self, id: str) -> Regions:
        return self.batch([id])

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Store.open, (self.path,)

    def batch(self, ids: Sequence[str], limit: int | None = None) -> Regions:
        """These images, in this order, padded to the largest R; of each at most the first `limit` regions."""
        if not ids or (limit is not None and limit < 1):
            raise ValueError(f"a batch has at least one image and one region, got {len(ids)} ids and limit {limit}")
        rows = [self._row(id) for id in ids]
        for row in rows:
            self._verify(row)
        counts = [int(self._index.counts[row]) for row in rows]
        keeps = counts if limit is None else [min(count, limit) for count in counts]
        b, r, layout = len(rows), max(keeps), self.layout
        arrays, feats = _empty(b, r, layout), torch.empty(b, r, layout.dim)
        half = np.empty((r, layout.dim), np.float16)  # one image at a time: stays in the cache
        for i, (row, count, keep) in enumerate(zip(rows, counts, keeps, strict=True)):
            header, front = self._read(row, count, half[:keep], arrays["grid"][i])
            feats[i, :keep].copy_(torch.from_numpy(half[:keep]))
            if keep < r:
                feats[i, keep:] = 0
            arrays["size"][i], arrays["valid"][i, :keep], arrays["whole"][i] = header.size, True, front.pop("whole")
            for name, values in front.items():
                arrays[name][i, :keep] = values[:keep]
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        whole, grid = tensors.pop("whole").float(), tensors.pop("grid").float()
        return Regions(feats, **tensors, whole=whole if layout.whole else None, grid=grid if layout.grid[0] else None)

    def check(self) -> Iterator[tuple[str, str | None]]:
        """Reads everything again; yields each id with None, or with what is wrong with it."""
        if not self._index.sound():
            raise DataError(f"{self._index.name} is damaged; run the command that made the store again to rebuild it")
        for row, id in enumerate(self.ids):
            self._verified[row] = False
            try:
                self._verify(row)
                yield id, None
            except DataError as error:
                yield id, str(error)

    # ------------------------------------------------------------ one image

    def _find(self, id: str) -> int | None:
        row = self._index.find(id)
        if row is None and not self._index_verified:  # an id is absent only if the index can be trusted
            if not self._index.sound():
                raise DataError(
                    f"{self._index.name} is damaged; run the command that made the store again to rebuild it"
                )
            self._index_verified = True
        return row

    def _row(self, id: str) -> int:
        row = self._find(id)
        if row is None:
            raise DataError(f"image {id!r} is not in the region store {self.path} ({len(self)} images)")
        return row

    def _damaged(self, row: int, how: str) -> DataError:
        return DataError(f"image {self._index.id(row)!r} of the region store {self.path} is damaged: {how}")

    def _verify(self, row: int) -> None:
        """Compare the checksums of an image with its bytes, once."""
        if self._verified[row]:
            return
        id, offset = self._index.id(row), int(self._index.offsets[row])
        try:
            header = _header(self._file, offset, self._index.bytes, self.layout)
            if header is None or (header.id, header.count) != (id, int(self._index.counts[row])):
                raise self._damaged(row, "its record is not where the index says")
            if not _body_is_sound(self._file, offset, header, self.layout):
                raise self._damaged(row, "its checksum does not match")
        except OSError as error:
            raise self._damaged(row, str(error)) from error
        self._verified[row] = True

    def _read(
        self, row: int, count: int, feats: NDArray[np.float16], grid: NDArray[np.float16]
    ) -> tuple[Header, dict[str, NDArray[Any]]]:
        """Fill `feats` with the first of an image's features and `grid`; return the rest."""
        offset, start = int(self._index.offsets[row]), RECORD.size + len(self._index.id(row).encode())
        front = bytearray(start + self.layout.front(count))
        try:
            complete = os.preadv(self._file, [front, feats.data], offset) == len(front) + feats.nbytes
            if grid.size:
                at = offset + start + self.layout.body(count) - grid.nbytes
                complete &= os.preadv(self._file, [grid.data], at) == grid.nbytes
        except OSError as error:
            raise self._damaged(row, str(error)) from error
        header = records.parse_record(bytes(front[:start]))
        if not complete or header is None:
            raise self._damaged(row, "the file was changed while it was open")
        return header, records.parse_front(memoryview(front)[start:], count, self.layout)


class Writer:
    """Appends images to a store, and finishes it when the `with` block ends without an exception.

    Stopped at any moment, a second Writer goes on: a record that was only half written is dropped, and `done` holds
    the ids of the others. Readers see what was there when the store was last finished.
    """

    def __init__(self, path: Path | str, fingerprint: Fingerprint) -> None:
        self.path = Path(path)
        self.fingerprint = fingerprint
        self.done: set[str] = set()
        self._layout: Layout | None = None
        self._ids: list[str] = []
        self._offsets: list[int] = []
        self._counts: list[int] = []
        self._end = 0  # of the last whole record
        self._synced = 0

    def __enter__(self) -> Writer:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path / DATA, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise GroundlingError(f"cannot write a region store to {self.path}: {error.strerror}") from error
        try:
            self._resume()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
            else:
                os.ftruncate(self._file, self._end)
                os.fsync(self._file)
        finally:
            os.close(self._file)

    def add(self, id: str, regions: Regions) -> None:
        """Append one image (B = 1). DataError names it when it cannot be kept."""
        if len(regions) != 1:
            raise ValueError(f"add takes the regions of one image, got {len(regions)}")
        if id in self.done:
            raise DataError(f"image {id!r} is in the region store {self.path} already: ids must differ")
        if not 0 < len(id.encode("utf-8", "surrogatepass")) <= records.ID_MAX:
            raise DataError(f"image id {id[:40]!r}: an id has 1 to {records.ID_MAX} bytes")
        if not bool(regions.valid.any()):
            raise DataError(f"image {id!r} has no regions: a model would have nothing to look at")
        record = records.pack_record(id, regions)
        layout = Layout.of(regions)
        if layout.dim != self.fingerprint.dim:
            raise DataError(f"image {id!r}: features have {layout.dim} numbers, the source says {self.fingerprint.dim}")
        if self._layout is None:
            self._begin(layout)
        elif layout != self._layout:
            raise DataError(f"image {id!r}: {layout} differs from the images before it, {self._layout}")
        self._append(record)
        self._ids.append(id)
        self._offsets.append(self._end)
        self._counts.append(int(regions.valid.sum()))
        self._end += len(record)
        self.done.add(id)

    # ------------------------------------------------------------

    def _begin(self, layout: Layout) -> None:
        head = records.pack_data_head(self.fingerprint, layout)
        self._append(head)
        self._end += len(head)
        self._layout = layout

    def _append(self, block: bytes) -> None:
        """Write at the end; on an error the file is what it was."""
        try:
            if self._end + len(block) - self._synced > SYNC:
                os.fsync(self._file)
                self._synced = self._end
            rest, at = memoryview(block), self._end
            while rest:
                written = os.pwrite(self._file, rest, at)
                rest, at = rest[written:], at + written
        except OSError as error:
            os.ftruncate(self._file, self._end)
            kept = f"the {len(self.done)} images before are kept; make room and run the same command again"
            raise GroundlingError(f"cannot write to {self.path / DATA}: {error.strerror}; {kept}") from error

    def _resume(self) -> None:
        """Lock the store, collect what is there, drop what is torn."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GroundlingError(f"another process is writing to the region store {self.path}") from error
        size, name = os.fstat(self._file).st_size, str(self.path / DATA)
        start = records.head_length(os.pread(self._file, records.HEAD.size, 0), records.DATA_MAGIC, name)
        if start is None or start > size:
            start = 0
        else:
            head = records.parse_head(os.pread(self._file, start, 0), name)
            require(from_json(head.get("fingerprint") or {}), self.fingerprint)
            self._layout = records.parse_layout(head, name)
            self._end = start
            for offset, header, end in _scan(self._file, start, size, self._layout):
                self._ids.append(header.id)
                self._offsets.append(offset)
                self._counts.append(header.count)
                self._end = end
        self.done = set(self._ids)
        self._compare_with_index()
        if not self._ids:  # the first image decides about the layout, and so about the head
            self._layout, self._end = None, 0
        elif size > self._end:
            log.warning("%s: dropped %d bytes of an image that was not written to its end", name, size - self._end)
        os.ftruncate(self._file, self._end)
        self._synced = self._end

    def _compare_with_index(self) -> None:
        """A finished store that has lost images is damaged, not torn."""
        if not (self.path / INDEX).exists():
            return
        try:
            index = records.parse_index(_mapped(self.path / INDEX), str(self.path / INDEX))
        except DataError as error:
            log.warning("%s; it will be written again", error)
            return
        if len(index) > len(self._ids):
            lost = index.id(len(self._ids))
            raise DataError(
                f"image {lost!r} of the region store {self.path} is damaged: delete the store, make it again"
            )

    def _finish(self) -> None:
        """Everything to the disk, then the index in one step: a reader sees the old store or the new one."""
        if self._layout is None:
            self._begin(Layout(self.fingerprint.dim))
        assert self._layout is not None
        index = records.pack_index(self.fingerprint, self._layout, self._end, self._ids, self._offsets, self._counts)
        part = self.path / f"{INDEX}.part"
        try:
            os.fsync(self._file)
            with open(part, "wb") as file:
                file.write(index)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path / INDEX)
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            part.unlink(missing_ok=True)
            kept = "its images are kept; make room and run the same command again"
            raise GroundlingError(f"cannot finish the region store {self.path}: {error.strerror}; {kept}") from error


# ----------------------------------------------------------------


def _empty(b: int, r: int, layout: Layout) -> dict[str, NDArray[Any]]:
    """The arrays of B images without any region yet, but for the features."""
    return {
        "boxes": np.zeros((b, r, 4), np.float32),
        "valid": np.zeros((b, r), np.bool_),
        "frame": np.zeros((b, r), np.int64),
        "size": np.zeros((b, 2), np.float32),
        "labels": np.zeros((b, r, layout.labels), np.int64),
        "scores": np.zeros((b, r, layout.labels), np.float32),
        "whole": np.zeros((b, layout.whole), np.float16),
        "grid": np.zeros((b, *layout.grid), np.float16),
    }


def _mapped(path: Path) -> memoryview:
    try:
        with open(path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise DataError(f"cannot read {path}: {error}") from error


def _header(file: int, offset: int, size: int, layout: Layout) -> Header | None:
    """The header of the record at `offset`; None unless it is whole and its body ends before `size`."""
    if offset >= size:
        return None
    header = records.parse_record(os.pread(file, RECORD.size + records.ID_MAX, offset))
    if header is None or offset + header.length + layout.body(header.count) > size:
        return None
    return header


def _body_is_sound(file: int, offset: int, header: Header, layout: Layout) -> bool:
    at, left, crc = offset + header.length, layout.body(header.count), 0
    while left:
        chunk = os.pread(file, min(left, CHUNK), at)
        if not chunk:
            return False
        crc, at, left = zlib.crc32(chunk, crc), at + len(chunk), left - len(chunk)
    return crc == header.crc


def _scan(file: int, start: int, size: int, layout: Layout) -> Iterator[tuple[int, Header, int]]:
    """Offset, header and end of every whole record, up to the first that is not.

    Bodies are read only where they may not have reached the disk before a power cut: the last SYNC bytes.
    """
    while start < size:
        header = _header(file, start, size, layout)
        if header is None:
            return
        end = start + header.length + layout.body(header.count)
        if end > size - SYNC and not _body_is_sound(file, start, header, layout):
            return
        yield start, header, end
        start = end
