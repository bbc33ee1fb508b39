"""A folder that people review, and the file that keeps what they decided.

The file is only ever appended to: one JSON object a line, on the disk (fsync) before the client hears that it was
accepted. So a server that is killed in the middle of a request has lost nothing that it accepted; a line that was being
written is cut off when the file is opened again. The last decision about a phrase of an image counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from groundling.errors import DataError, GroundlingError
from groundling.serve.asks import Fields, as_box
from groundling.serve.problems import Problem, bad
from groundling.types import Box

VERDICTS = ("right", "moved", "wrong", "undone")  # moved: the phrase is there, but at the box that is given
MOST_PHOTOS = 200_000


@dataclass(frozen=True)
class Decision:
    """What a person decided about a phrase of an image; `undone` takes the decision before it back."""

    image: str
    phrase: str
    verdict: str
    box: Box | None
    by: str = ""
    time: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        return self.image, self.phrase


def decision(fields: Fields, photos: Mapping[str, Path], now: float) -> Decision:
    """A decision as it was sent; Problem where it is none."""
    image, phrase = fields.text("image", 1000), fields.text("phrase", 200).strip()
    verdict, by, box = fields.text("verdict", 20), fields.text("by", 80), fields.box("box")
    fields.done()
    if image not in photos:
        raise Problem(404, "unknown-photo", "there is no such photo in the folder; GET /v1/photos lists them")
    if not phrase:
        raise bad("name the phrase that was decided about")
    if verdict not in VERDICTS:
        raise bad(f"verdict must be one of {', '.join(VERDICTS)}")
    if verdict in ("right", "moved") and box is None:
        raise bad("give the box that is right")
    return Decision(image, phrase, verdict, box, by, round(now, 3))


@dataclass
class Reviews:
    """The decisions of a file. `open` it once; one process writes to it."""

    path: Path
    descriptor: int
    latest: dict[tuple[str, str], Decision] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @staticmethod
    def open(path: Path) -> Reviews:
        """Read what is there, cut off half a line at the end, take the file for this process alone."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise GroundlingError(f"{path} cannot be written ({error.strerror}): choose another place") from error
        _lock_file(descriptor, path)
        reviews = Reviews(path, descriptor)
        whole = 0
        for end, row in _rows(path):
            reviews._count(row)
            whole = end
        os.ftruncate(descriptor, whole)
        _sync_folder(path.parent)
        return reviews

    def add(self, decision: Decision) -> int:
        """Keep it, on the disk; how many there are now. Blocks until the disk has it."""
        line = json.dumps(asdict(decision), ensure_ascii=False).encode() + b"\n"
        with self._lock:
            before = os.fstat(self.descriptor).st_size
            try:
                _write_all(self.descriptor, line)
                os.fsync(self.descriptor)
            except OSError as error:
                os.ftruncate(self.descriptor, before)
                raise Problem(507, "disk", f"the decision could not be kept: {error.strerror}") from error
            self._count(decision)
            return self.count

    def of(self, image: str) -> list[Decision]:
        """The decisions about an image that count."""
        with self._lock:
            return [d for d in self.latest.values() if d.image == image]

    def reviewed(self) -> dict[str, int]:
        """How many phrases of each image are decided."""
        counts: dict[str, int] = {}
        with self._lock:
            for image, _ in self.latest:
                counts[image] = counts.get(image, 0) + 1
        return counts

    def close(self) -> None:
        os.close(self.descriptor)

    def _count(self, decision: Decision) -> None:
        self.count += 1
        self.latest.pop(decision.key, None)
        if decision.verdict != "undone":
            self.latest[decision.key] = decision


def _rows(path: Path) -> Iterator[tuple[int, Decision]]:
    """The decisions of a file, each with the byte after it. Half a line at the end is no decision."""
    end = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            end += len(line)
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
                box = None if row["box"] is None else as_box(row["box"], "box")
                found = Decision(row["image"], row["phrase"], row["verdict"], box, row["by"], float(row["time"]))
            except (Problem, ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not a decision of a review; move the file away") from error
            yield end, found


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _lock_file(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise GroundlingError(f"{path} is in use by another server: end it, or name another file") from error


def _sync_folder(folder: Path) -> None:
    """A new file is only there after a crash if its folder was written too."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def list_photos(folder: Path) -> dict[str, Path]:
    """The pictures below a folder, by their paths in it. No other file of the disk can be asked for."""
    from groundling.images import SUFFIXES

    if not folder.is_dir():
        raise GroundlingError(f"{folder} is no folder: name one with photos")
    root = folder.resolve()
    files = (path for path in sorted(root.rglob("*")) if path.suffix.lower() in SUFFIXES)
    found = {
        path.relative_to(root).as_posix(): path
        for path in files
        if path.is_file() and path.resolve().is_relative_to(root)
    }
    if not 0 < len(found) <= MOST_PHOTOS:
        raise GroundlingError(f"{folder} has {len(found)} photos; a review takes 1 to {MOST_PHOTOS:,}")
    return found
