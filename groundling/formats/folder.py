"""The images of a folder, found by what files of captions call them."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Generic, TypeVar

from groundling.errors import DataError

DIGITS = re.compile(r"(\d+)$", re.ASCII)
T = TypeVar("T")


class Named(Generic[T]):
    """What belongs to images, each known by its id and its whole path, by its file's name and by that name without its
    ending. A file's name that two images share finds neither: DataError."""

    def __init__(self, items: Iterable[tuple[str, str, T]]) -> None:
        """id, path ("" where there is none), and what belongs to the image."""
        self._exact: dict[str, T] = {}
        self._short: dict[str, tuple[str, T] | None] = {}  # file's name -> path and value; None where two have it
        for id, path, value in items:
            self._exact |= {path: value, id: value} if path else {id: value}
            for name in {Path(path).name, Path(path).stem} if path else ():
                known = self._short.get(name, (path, value))
                self._short[name] = (path, value) if known is not None and known[0] == path else None

    def find(self, name: str) -> T | None:
        """None for an image that is not among them."""
        if name in self._exact:
            return self._exact[name]
        for key in (Path(name).name, Path(name).stem):
            if key in self._exact:
                return self._exact[key]
            if key in self._short:
                found = self._short[key]
                if found is None:
                    raise DataError(f"several images are called {key!r}: name each by its id or its whole path")
                return found[1]
        return None


class ImageFolder:
    """`find` knows an image by its path below the folder, its file's name, that name without its ending, and, for
    COCO, by its number: 42 is COCO_val2014_000000000042.jpg. No name leads out of the folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise DataError(f"{self.path}: not a folder of images")

    def find(self, name: str, file: str = "") -> Path:
        """`file`: the name of the image's file, where it is known beside `name`; it is looked for first."""
        for key in [*(_keys(file) if file else ()), *_keys(name)]:
            found = self._known.get(key)
            if found is not None and found != "":
                return self.path / found
            if found == "":
                raise DataError(f"{self.path}: several images are called {key!r}: give paths below the folder")
        raise DataError(f"{self.path}: no image called {name!r}")

    @cached_property
    def _known(self) -> dict[str, str]:
        """Every name that an image has -> its path below the folder; "" where two have the name."""
        from groundling.images import SUFFIXES

        paths = []
        for folder, _, names in os.walk(self.path):
            below = os.path.relpath(folder, self.path)
            paths += [os.path.normpath(os.path.join(below, n)) for n in names if Path(n).suffix.lower() in SUFFIXES]
        known: dict[str, str] = {}
        for path in paths:
            stem = Path(path).stem
            digits = DIGITS.search(stem)
            aliases = set(map(_composed, (path, Path(path).name, stem)))
            aliases |= {str(int(digits[1]))} if digits and len(digits[1]) == 12 else set()
            for alias in aliases - {path}:
                known[alias] = "" if alias in known else path
        return known | {Path(path).as_posix(): path for path in paths}


def _keys(name: str) -> list[str]:
    """What an image of this name may be known as."""
    asked = PurePosixPath(name.replace("\\", "/"))
    keys = [str(asked), _composed(str(asked)), *map(_composed, (asked.name, asked.stem))]
    return keys + ([str(int(name))] if name.isascii() and name.isdecimal() and len(name) < 20 else [])


def _composed(name: str) -> str:
    """The name with each accented letter as one character: macOS takes them apart in names of files, tables do not."""
    return unicodedata.normalize("NFC", name)
