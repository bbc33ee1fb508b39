"""What commands write: files and folders that are tried before the work begins, and JSON lines of long work.

Lines are kept one by one until all are there; the same call continues after a stop.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from groundling.errors import DataError, GroundlingError
from groundling.files import locked, open_regular, reading, saved, saving

PART = ".part"  # the folder beside a file that holds its lines until it is complete

Row = dict[str, Any]


def new_file(name: str | Path, *read: str | Path | None) -> Path:
    """The file that will be written; its folder is made. GroundlingError if there can be no such file.

    `read`: what the command reads, which is never written over: files, and folders that may be written into but for
    the captions and boxes of a data set.
    """
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise GroundlingError(f"{path} is a folder: give the name of a file")
        existing = path if path.exists() else path.parent
    except OSError as error:
        raise GroundlingError(f"{path} cannot be written ({error.strerror}): choose another place") from error
    if path.exists():
        refuse_input([path], [file for name in read if name for file in _files_of(Path(name))])
    return _allowed(path, existing)


def refuse_input(written: Iterable[str | Path], read: Iterable[str | Path]) -> None:
    """GroundlingError where a file that is to be written is one that is read, or a frame of a video that is read."""
    kept = {os.path.realpath(path) for path in read}
    for path in written:
        real = os.path.realpath(path)
        if os.path.exists(real) and not kept.isdisjoint((real, os.path.dirname(real))):
            raise GroundlingError(f"{path} is what the command reads, and would be lost: choose another place")


def _files_of(path: Path) -> list[Path]:
    """The file itself and those of its data set; of a folder the latter alone."""
    from groundling.data.dataset import annotation_files

    return annotation_files(path) + ([] if os.path.isdir(path) else [path])


def new_folder(name: str) -> Path:
    """The folder that files will be written to, made where it is not there."""
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GroundlingError(f"{path} cannot be made a folder ({error.strerror}): choose another place") from error
    return _allowed(path, path)


def file_name(id: str, ending: str) -> str:
    """A file name for an id, another for every other: what no name may hold is written as in an address, / as %2F.

    The names of Windows hold least, so that folders can be copied there.
    """
    escaped = "".join(f"%{ord(c):02X}" if c in '%/\\<>:"|?*' or not c.isprintable() else c for c in id)
    return (f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped) + ending


def add_stored_boxes(media: str, rows: Sequence[Row]) -> None:
    """Give each row the box in the pixels as the file stores them, where EXIF turns the picture before it is shown."""
    from groundling.images import SUFFIXES, stored_boxes

    if not rows or Path(media).suffix.lower() not in SUFFIXES:
        return
    with suppress(DataError):  # the picture is elsewhere, only its regions are here
        for row, box in zip(rows, stored_boxes(media, [row["box"] for row in rows]) or (), strict=False):
            row["stored_box"] = [round(x, 1) for x in box]


def _allowed(path: Path, existing: Path) -> Path:
    if not os.access(existing, os.W_OK):
        raise GroundlingError(f"{path} cannot be written (no permission): choose another place")
    return path


# ---------------------------------------------------------------- JSON lines


class Unfinished:
    """The lines that a call has made so far. Made by `unfinished`."""

    def __init__(self, path: Path, kept: Path) -> None:
        self.path, self.kept = path, kept
        mend(kept)

    def rows(self) -> list[Row]:
        """What earlier runs of this call have made."""
        return list(read_lines(self.kept))

    def keep(self, rows: Sequence[Row]) -> None:
        """Keep these lines only."""
        with saved(self.kept) as file:
            file.writelines(map(line, rows))

    def finish(self, change: Callable[[Row], Row] = dict) -> None:
        """Put all lines, each as `change` makes it, into the file in one step."""
        with saved(self.path) as file:
            for row in read_lines(self.kept):
                file.write(line(change(row)))
        shutil.rmtree(self.kept.parent, ignore_errors=True)


@contextmanager
def unfinished(path: Path, call: Mapping[str, Any]) -> Iterator[Unfinished]:
    """Lines for the file `path`. `call` says all that they depend on: only an equal one goes on with them.

    Until all are there they are in the folder `path`.part, which one process at a time can use, and an earlier file of
    that name stays.
    """
    folder = path.with_name(path.name + PART)
    with saving(folder):
        folder.mkdir(exist_ok=True)
    try:
        with locked(folder, "the unfinished lines in"):
            kept = folder / f"{hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()[:16]}.jsonl"
            with saving(kept):
                kept.touch()
            try:
                yield Unfinished(path, kept)
            finally:
                if folder.exists() and not any(file.stat().st_size for file in folder.glob("*.jsonl")):
                    shutil.rmtree(folder, ignore_errors=True)
    finally:
        with suppress(OSError):  # it is not there, or not empty; Windows keeps it while the lock in it is held
            folder.rmdir()


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Row], None]]:
    """What writes one line behind those of a file, at once and whole."""
    with saving(path, "; the lines written so far are kept"), open(path, "ab", buffering=0) as file:

        def add(row: Row) -> None:
            left = memoryview(line(row))
            while left:
                left = left[file.write(left) :]

        yield add


def line(row: Row) -> bytes:
    """One line of UTF-8; what has no UTF-8, half of a surrogate pair, is escaped."""
    return json.dumps(row, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def read_lines(path: Path) -> Iterator[Row]:
    """The objects of a file of JSON lines, one at a time; DataError names a line that is none."""
    with reading(path), open_regular(path) as file:
        for number, text in enumerate(file, start=1):
            yield _row(text, f"{path}: line {number}")


def _row(text: bytes, where: str) -> Row:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON: {error}; delete the file and run the same command again") from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: not a JSON object; delete the file and run the same command again")
    return row


def mend(path: Path) -> None:
    """Cut off a last line that was not finished when its process was stopped."""
    with saving(path), path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65_536)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                file.truncate(start + at + 1)
                return
            end = start
        file.truncate(0)
