"""Checks that every reader makes of files from outside, and how it reports what is wrong."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from groundling import files
from groundling.errors import DataError
from groundling.files import open_regular, read_text, shown
from groundling.text.words import caption
from groundling.types import Box, Caption

MAX_SIDE = 1_000_000  # pixels; more is a mistake
SLACK = 1.0  # pixels that a box may reach beyond its image, as rounding does; it is then cut

T = TypeVar("T")
KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number"}


class BadItem(DataError):
    """One bad item of a data set, where bad items are not to be left out."""


@dataclass
class Problems:
    """Bad items of a data set: the first one is an error, or all are left out and listed."""

    skip: bool = False
    found: list[str] = field(default_factory=list)

    def report(self, message: str) -> None:
        """`message` names the file, line or id, what is wrong there, and what would be right."""
        if not self.skip:
            raise BadItem(f"{message}; correct this, or leave such items out with --skip-bad (skip_bad=True)")
        self.found.append(message)

    def item(self) -> Problems:
        """`with problems.item():` a DataError inside is the problem of one item, not of the whole file."""
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None or not isinstance(error, DataError) or isinstance(error, BadItem):
            return False
        self.report(str(error))
        return True


# ---------------------------------------------------------------- files


def head(path: Path, size: int = 1 << 20) -> str:
    """The beginning of a file as text, for guessing what it is; empty where it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(size).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def parse_json(text: str, where: str) -> Any:
    """JSON as the standard has it: no NaN, no half characters."""
    return files.parse_json(text, where, standard=True)


def read_json(path: Path) -> Any:
    return parse_json(read_text(path), str(path))


def parse_xml(text: str, where: str) -> ElementTree.Element:
    """XML without a document type: entities are the way to make a small file large."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DataError(f"{where}: XML with a document type is not read; remove the DOCTYPE")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else 1
        raise DataError(f"{where}, line {line}: not XML ({error}); is the file complete?") from error


# ---------------------------------------------------------------- values


def expect(value: Any, kind: type[T], where: str) -> T:
    """The value, which must be of this kind; a whole number is a number, a truth value is not."""
    if kind is float and type(value) is int:
        value = _float(value, where)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{where}: expected {KINDS[kind]}, got {shown(value, 60)}")
    return value


def within(value: float, most: float, where: str) -> int:
    """A whole number of pixels, frames or the like, from 0 to `most`; DataError for any other, of whatever length."""
    if not 0 <= value <= most:
        raise DataError(f"{where}: {shown(value, 60)}, expected a number from 0 to {most:,}")
    return int(value)


def get(row: Any, key: str, kind: type[T], where: str) -> T:
    """The value of a key of a JSON object, of this kind."""
    if key not in expect(row, dict, where):
        raise DataError(f"{where}: the key {key!r} is missing; there are {', '.join(sorted(map(str, row)))[:100]}")
    return expect(row[key], kind, f"{where}: {key}")


def identity(row: Any, key: str, where: str) -> str:
    """An id, which some files write as a number and others as a string."""
    value = expect(row, dict, where).get(key)
    if type(value) is int:
        return str(value)
    return get(row, key, str, where)


def numbers(value: Any, count: int, where: str) -> tuple[float, ...]:
    """So many numbers from a JSON list."""
    row = expect(value, list, where)
    if len(row) != count:
        raise DataError(f"{where}: expected {count} numbers, got {len(row)}")
    return tuple(expect(x, float, where) for x in row)


def _float(value: int, where: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise DataError(f"{where}: a number of {len(str(value))} digits") from error


def checked_caption(text: str, where: str) -> Caption:
    """The caption; DataError where there is no word in it."""
    parsed = caption(text)
    if not parsed.tokens:
        raise DataError(f"{where}: " + (f"no word in the caption {text[:40]!r}" if text.strip() else "empty caption"))
    return parsed


def checked_box(corners: Sequence[float], size: tuple[int, int], where: str) -> Box:
    """The box cut to its image; DataError where it is not finite, inverted, empty or outside the image.

    A size of (0, 0) is unknown: nothing is outside it and nothing is cut.
    """
    left, top, right, bottom = corners
    width, height = size
    if not all(map(math.isfinite, corners)):
        wrong = "is not finite"
    elif right <= left or bottom <= top:
        wrong = "is inverted or empty: right must exceed left, bottom must exceed top"
    elif size == (0, 0):
        return left, top, right, bottom
    elif left < -SLACK or top < -SLACK or right > width + SLACK or bottom > height + SLACK:
        wrong = f"reaches beyond the image of {width:g} x {height:g} pixels"
    elif right <= 0 or bottom <= 0 or left >= width or top >= height:
        wrong = f"lies beside the image of {width:g} x {height:g} pixels"
    else:
        return max(left, 0.0), max(top, 0.0), min(right, width), min(bottom, height)
    raise DataError(f"{where}: the box ({left:g}, {top:g}, {right:g}, {bottom:g}) {wrong}")
