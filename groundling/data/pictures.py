"""Where the images and videos of a data set are: beside its files, or in one of the folders that people use."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path, PurePosixPath

from groundling.errors import DataError
from groundling.images import SUFFIXES as SUFFIXES
from groundling.images import image_size
from groundling.video import SUFFIXES as VIDEOS
from groundling.video import clip_size

FOLDERS = re.compile(
    r"(.*[-_])?(images?|imgs|pictures|photos|jpegimages|mscoco|videos?|clips?)|(train|val|test)(20)?\d\d|.*_dataset",
    re.I,
)
DEPTH = 4
ANNOTATIONS = {".json", ".jsonl", ".csv", ".tsv", ".xml", ".zip", ".p"}  # endings of files that hold captions or boxes


def only_pictures(folder: Path) -> bool:
    """Is this a folder of images and not a data set? No file of it or below may hold annotations."""
    return not any(file.suffix.lower() in ANNOTATIONS for file in folder.rglob("*"))


class Pictures:
    """Image and video files under a folder, found by path, by name or, images alone, by name without suffix.

    Only the folder itself and subfolders whose names mean images are searched, so that a table of captions in a
    home folder does not make us walk through all of it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._by_name: dict[str, list[Path]] = {}
        self._by_stem: dict[str, list[Path]] = {}
        self._index(root, DEPTH)

    def __len__(self) -> int:
        return len(self._by_name)

    def by_name(self, name: str) -> Path:
        """The file at this path, relative to the root or absolute, else the one that has this file name.

        A name without the suffix of an image is looked for among the names without theirs.
        """
        last = PurePosixPath(name.replace("\\", "/")).name
        known = self._by_name if PurePosixPath(last).suffix.lower() in SUFFIXES | VIDEOS else self._by_stem
        return self._at(name) or self._only(known, last)

    def by_stem(self, stem: str) -> Path:
        """The file whose name without suffix is `stem`."""
        return self._only(self._by_stem, stem)

    def media(self, name: str) -> tuple[str, tuple[int, int]]:
        """Path and size of an image or video by its name; ("", (0, 0)) where the data set came without any."""
        if not self and not self._at(name):
            return "", (0, 0)
        path = self.by_name(name)
        return str(path), clip_size(path) if path.suffix.lower() in VIDEOS else image_size(path)

    def _at(self, name: str) -> Path | None:
        try:
            return path if (path := self.root / name).is_file() else None
        except (OSError, ValueError):  # a name that no file can have
            return None

    def _only(self, known: dict[str, list[Path]], name: str) -> Path:
        paths = known.get(_composed(name), [])
        if len(paths) == 1:
            return paths[0]
        if paths:
            raise DataError(f"image {name}: {len(paths)} files have this name, {paths[0]} and {paths[1]}; keep one")
        raise DataError(f"image {name}: no such file in {self.root} or its image folders; add the file")

    def _index(self, folder: Path, depth: int) -> None:
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise DataError(f"{folder}: cannot be read ({error.strerror or error})") from error
        for entry in entries:
            if entry.suffix.lower() in SUFFIXES:
                self._by_name.setdefault(_composed(entry.name), []).append(entry)
                self._by_stem.setdefault(_composed(entry.stem), []).append(entry)
            elif entry.suffix.lower() in VIDEOS:
                self._by_name.setdefault(_composed(entry.name), []).append(entry)
            elif depth and (depth < DEPTH or FOLDERS.fullmatch(entry.name)) and entry.is_dir():
                self._index(entry, depth - 1)


def _composed(name: str) -> str:
    """The name with each accented letter as one character: macOS takes them apart in names of files, tables do not."""
    return unicodedata.normalize("NFC", name)
