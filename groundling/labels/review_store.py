"""The decisions of a review in a file that is only ever appended to: one JSON object a line.

A decision is on the disk (fsync) before `add` returns. So a process that is killed in the middle has lost nothing that
it accepted; a line that was being written is cut off when the file is opened again. The last decision about a label
counts, and one that was undone does not.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from groundling.errors import DataError, GroundlingError
from groundling.labels.review import Decision, Key, decision_of

FILE = "review.jsonl"  # in the folder of the labels by default
UNDO = "undo"


@dataclass
class ReviewStore:
    """Opened once; one process writes to it."""

    path: Path
    descriptor: int
    latest: dict[Key, Decision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @staticmethod
    def open(path: Path) -> ReviewStore:
        """Read what is there, cut off half a line at the end, take the file for this process alone."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise GroundlingError(f"{path} cannot be written ({error.strerror}): choose another place") from error
        store = ReviewStore(path, descriptor)
        try:
            _take(descriptor, path)
            whole = 0
            for end, key, decision in _lines(path):
                _count(store.latest, key, decision)
                whole = end
            os.ftruncate(descriptor, whole)
            _sync_folder(path.parent)
        except BaseException:
            store.close()
            raise
        return store

    def add(self, key: Key, decision: Decision | None) -> int:
        """Keep a decision, or with None that it was undone; how many count now. Blocks until the disk has it."""
        row = {"image": key[0], "label": key[1], "action": UNDO} if decision is None else asdict(decision)
        line = json.dumps(row | {"time": round(time.time(), 3)}, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            before = os.fstat(self.descriptor).st_size
            try:
                _write_all(self.descriptor, line)
                os.fsync(self.descriptor)
            except OSError:
                os.ftruncate(self.descriptor, before)
                raise
            _count(self.latest, key, decision)
            return len(self.latest)

    def decisions(self) -> list[Decision]:
        """Those that count, in the order in which they were made."""
        with self._lock:
            return list(self.latest.values())

    def close(self) -> None:
        os.close(self.descriptor)


def read_store(path: Path) -> dict[Key, Decision]:
    """The decisions of a file that count; DataError names what is wrong."""
    latest: dict[Key, Decision] = {}
    try:
        for _, key, decision in _lines(path):
            _count(latest, key, decision)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return latest


def _count(latest: dict[Key, Decision], key: Key, decision: Decision | None) -> None:
    latest.pop(key, None)
    if decision is not None:
        latest[key] = decision


def _lines(path: Path) -> Iterator[tuple[int, Key, Decision | None]]:
    """The byte after each line, which label it is of, and what was decided. Half a line at the end is none."""
    end = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            end += len(line)
            if not line.endswith(b"\n"):
                return
            try:
                yield end, *parsed(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not a decision of a review ({error})") from error


def parsed(row: Any) -> tuple[Key, Decision | None]:
    """What a row decides, and of which label; ValueError, KeyError or TypeError where it is none."""
    if row["action"] != UNDO:
        decision = decision_of(row)
        return (decision.image, decision.label), decision
    if not isinstance(row["image"], str) or type(row["label"]) is not int:
        raise TypeError("expected an image id and the number of a label")
    return (row["image"], row["label"]), None


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _take(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise GroundlingError(f"{path} is in use by another server: end it, or name another file") from error


def _sync_folder(folder: Path) -> None:
    """A new file is only there after a crash if its folder was written too."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
