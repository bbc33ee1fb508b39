"""What several formats share: corners and sides of boxes, JSON that is written piece by piece, errors with a place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from groundling.data.checks import parse_json
from groundling.errors import DataError
from groundling.files import read_text
from groundling.labels.label import Label, LabelledImage, Mention, PlacedBox, as_box
from groundling.types import Box

SPLIT = "train"  # of images that name none


def xywh(box: Box) -> list[float]:
    """Left, top, width, height, to a hundredth of a pixel."""
    left, top, right, bottom = (round(float(x), 2) for x in box)
    return [left, top, round(right - left, 2), round(bottom - top, 2)]


def xyxy(box: Box) -> list[float]:
    return [round(float(x), 2) for x in box]


def from_xywh(value: Any, size: tuple[int, int] = (0, 0)) -> Box:
    left, top, width, height = value
    return as_box([left, top, left + width, top + height], size)


def heads(images: Iterable[LabelledImage]) -> list[str]:
    """The head nouns of all labels that are kept, in alphabetical order: what detectors call classes."""
    return sorted({label.head for image in images for label in image.kept})


def split_of(image: LabelledImage) -> str:
    return image.split or SPLIT


def with_labels(images: Iterable[LabelledImage]) -> Iterator[LabelledImage]:
    """The images that could be read."""
    return (image for image in images if not image.problem)


def captions_with_labels(image: LabelledImage) -> Iterator[tuple[int, str, list[tuple[Label, Mention]]]]:
    """Number and text of each caption, and the labels that it mentions, in the order of mention."""
    for at, text in enumerate(image.captions):
        found = [(label, one) for label in image.kept for one in label.mentions if one.caption == at]
        yield at, text, sorted(found, key=lambda pair: pair[1].span)


def box_of(box: Box, score: float = 1.0) -> PlacedBox:
    """A box whose format has one number for how sure it is, or none."""
    return PlacedBox(box, score, score)


def json_lists(file: IO[str], lists: dict[str, Iterable[Any]]) -> None:
    """One JSON object of lists, written item by item: its size does not matter."""
    file.write("{")
    for number, (name, items) in enumerate(lists.items()):
        file.write(f"{',' if number else ''}\n{json.dumps(name)}: [")
        for at, item in enumerate(items):
            file.write(f"{',' if at else ''}\n{dumped(item)}")
        file.write("]")
    file.write("}\n")


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each line of a file is, and what it says; one line at a time."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}, line {number}", parse_json(line, f"{path}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def json_file(path: Path) -> Any:
    return parse_json(read_text(path), str(path))


@contextmanager
def parsing(where: str) -> Iterator[None]:
    """Whatever a file lacks or has wrong inside the `with` is a DataError that names the place."""
    try:
        yield
    except DataError as error:
        raise error if where in str(error) else DataError(f"{where}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(f"{where}: {type(error).__name__}: {error}") from error


def finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number
