"""Writing a region store: append-only, resumable after a kill at any moment, finished in one step."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from groundling.errors import DataError, GroundlingError, RegionMismatch
from groundling.files import atomic, locked
from groundling.regions import records
from groundling.regions.files import DATA, INDEX, SYNC, mapped_index, scan
from groundling.regions.fingerprints import differences, from_json
from groundling.regions.records import Layout
from groundling.tensors import Regions
from groundling.types import Fingerprint

log = logging.getLogger(__name__)

NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a pipe of this name would keep us waiting for its other end


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
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.path, "the region store"))
                self._file = os.open(self.path / DATA, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | NO_WAITING, 0o666)
            except OSError as error:
                raise GroundlingError(f"cannot write a region store to {self.path}: {error.strerror}") from error
            stack.callback(os.close, self._file)
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise GroundlingError(f"{self.path / DATA} is not a regular file: write to another folder")
            self._resume()
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            if kind is None:
                self._finish()
            else:
                os.ftruncate(self._file, self._end)
                os.fsync(self._file)

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
        """Collect what is there, drop what is torn."""
        size, name = os.fstat(self._file).st_size, str(self.path / DATA)
        start = records.head_length(os.pread(self._file, records.HEAD.size, 0), records.DATA_MAGIC, name)
        if start is None or start > size:
            start = 0
        else:
            head = records.parse_head(os.pread(self._file, start, 0), name)
            if difference := differences(from_json(head.get("fingerprint") or {}), self.fingerprint):
                raise RegionMismatch(
                    f"{self.path} holds other regions: {difference}; write to another folder, or delete it"
                )
            self._layout = records.parse_layout(head, name)
            self._end = start
            for offset, header, end in scan(self._file, start, size, self._layout):
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
            index = mapped_index(self.path)
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
        try:
            os.fsync(self._file)
            with atomic(self.path / INDEX) as file:
                file.write(index)
        except OSError as error:
            kept = "its images are kept; make room and run the same command again"
            raise GroundlingError(f"cannot finish the region store {self.path}: {error.strerror}; {kept}") from error
