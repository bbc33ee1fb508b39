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

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.regions import records
from groundling.regions.files import DATA, INDEX, body_is_sound, header_at, mapped_index
from groundling.regions.fingerprints import from_json
from groundling.regions.records import RECORD, Header, Index, Layout
from groundling.regions.writer import Writer
from groundling.tensors import Regions
from groundling.types import Fingerprint

__all__ = ["Store", "Writer"]


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
        self._kept: dict[tuple[int, int], int] = {}  # of clips, by row and limit
        self._index_verified = False
        weakref.finalize(self, os.close, file)

    @staticmethod
    def open(path: Path | str) -> Store:
        """Maps the index and reads its head; its cost does not depend on the number of images."""
        path = Path(path)
        if not (path / INDEX).exists():
            if not (path / DATA).exists():
                raise DataError(
                    f"no region store at {path}; make one: groundling regions extract DATA --source photos --out {path}"
                )
            cure = "run the command that makes it again: it goes on where it was stopped"
            raise DataError(f"the region store {path} is unfinished; {cure}")
        index = mapped_index(path)
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
        """These images, in this order, padded to the largest R; of each at most the first `limit` regions.

        Of a clip, whose frames take turns, at most `limit` regions of each frame.
        """
        if not ids or (limit is not None and limit < 1):
            raise ValueError(f"a batch has at least one image and one region, got {len(ids)} ids and limit {limit}")
        rows = [self._row(id) for id in ids]
        for row in rows:
            self._verify(row)
        counts = [int(self._index.counts[row]) for row in rows]
        keeps = counts if limit is None else [self._first(row, n, limit) for row, n in zip(rows, counts, strict=True)]
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
        tensors: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        whole, grid = tensors.pop("whole").float(), tensors.pop("grid").float()
        return Regions(feats, **tensors, whole=whole if layout.whole else None, grid=grid if layout.grid[0] else None)

    def require(self, ids: Iterable[str]) -> None:
        """DataError unless all these images are here."""
        wanted = list(ids)
        if missing := [id for id in wanted if id not in self]:
            raise DataError(
                f"{self.path} has no regions of {len(missing)} of {len(wanted)} images, such as {missing[0]!r}: "
                "make them with `groundling regions extract`"
            )

    def check(self) -> Iterator[tuple[str, str | None]]:
        """Reads everything again; yields each id with None, or with what is wrong with it.

        DataError where the index, the head of the data or what is behind its last image is not as it was written.
        """
        self._trust_index()
        self._trust_data()
        for row, id in enumerate(self.ids):
            self._verified[row], problem = False, None
            try:
                self._verify(row)
            except DataError as error:
                problem = str(error)
            yield id, problem

    # ------------------------------------------------------------ one image

    def _find(self, id: str) -> int | None:
        row = self._index.find(id)
        if row is None and not self._index_verified:  # an id is absent only if the index can be trusted
            self._trust_index()
        return row

    def _trust_index(self) -> None:
        """DataError unless the index has the checksum that it was written with."""
        if not self._index.sound():
            raise DataError(f"{self._index.name} is damaged; run the command that made the store again to rebuild it")
        self._index_verified = True

    def _trust_data(self) -> None:
        """DataError unless the data begins with the head that the index has, and ends where the index says."""
        name, size = str(self.path / DATA), os.fstat(self._file).st_size
        start = records.head_length(os.pread(self._file, records.HEAD.size, 0), records.DATA_MAGIC, name)
        if start is None or start > size:
            raise DataError(f"{name} is damaged: it ends too early; make the store again")
        head = records.parse_head(os.pread(self._file, start, 0), name)
        described = from_json(head.get("fingerprint") or {}), records.parse_layout(head, name)
        if described != (self.fingerprint, self.layout) or (len(self) and int(self._index.offsets[0]) != start):
            raise DataError(f"{name} and {self._index.name} are of two stores; make the store again")
        if size != self._index.bytes:
            cure = "run the command that makes the store again: it keeps what is whole and drops the rest"
            raise DataError(f"{name}: {size - self._index.bytes:+,} bytes against what its index says; {cure}")

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
            header = header_at(self._file, offset, self._index.bytes, self.layout)
            if header is None or (header.id, header.count) != (id, int(self._index.counts[row])):
                raise self._damaged(row, "its record is not where the index says")
            if not body_is_sound(self._file, offset, header, self.layout):
                raise self._damaged(row, "its checksum does not match")
        except OSError as error:
            raise self._damaged(row, str(error)) from error
        self._verified[row] = True

    def _first(self, row: int, count: int, limit: int) -> int:
        """How many of the regions of an image are `limit`, or of a clip `limit` of each frame."""
        if count <= limit:
            return count
        if (row, limit) not in self._kept:
            none = np.empty((0, self.layout.dim), np.float16)
            _, front = self._read(row, count, none, np.empty(0, np.float16))
            each = np.unique(front["frame"], return_counts=True)[1]
            self._kept[row, limit] = int(np.minimum(each, limit).sum())
        return self._kept[row, limit]

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
