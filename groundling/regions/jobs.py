"""The image and video files of which regions are made, or captions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from groundling.errors import DataError
from groundling.images import SUFFIXES
from groundling.video import FRAMES, Segment
from groundling.video import SUFFIXES as VIDEOS


@dataclass(frozen=True)
class Job:
    """An image to be done, or so many frames of a clip, or of one segment of it."""

    id: str
    path: Path
    frames: int = FRAMES
    segment: Segment | None = None


def images_below(folder: Path, frames: int = FRAMES) -> list[Job]:
    """The image and video files of a folder; of a video so many frames. An id is the name without its ending, or the
    path below where names repeat."""
    known = SUFFIXES | VIDEOS
    files = sorted(f for f in folder.rglob("*") if f.suffix.lower() in known and not _hidden(f.relative_to(folder)))
    if not files:
        raise DataError(f"{folder}: no image files ({', '.join(sorted(SUFFIXES))}) and no videos in it or below")
    times = Counter(file.stem for file in files)
    return [Job(f.stem if times[f.stem] == 1 else f.relative_to(folder).as_posix(), f, frames) for f in files]


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
