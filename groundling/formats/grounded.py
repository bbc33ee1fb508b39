"""What every format is read into and written from: a text, phrases of it, and where in the image they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundling.types import Box, Span

Point = tuple[float, float]  # x, y in pixels


@dataclass(frozen=True)
class Place:
    """Characters of the text, and where what they name is. Boxes are xyxy; both are in pixels of the image."""

    span: Span  # empty where the output names nothing
    boxes: tuple[Box, ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Problem:
    """A part of an output that could not be read, or not as it stands."""

    at: int  # the character of the output where it begins
    reason: str
    piece: str = ""  # the part itself, shortened


@dataclass(frozen=True)
class Grounded:
    """A caption with places, and what could not be read of it."""

    text: str
    places: tuple[Place, ...] = ()
    problems: tuple[Problem, ...] = ()

    def phrase(self, place: Place) -> str:
        return self.text[slice(*place.span)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: {"text", "places": [{"phrase", "span", "boxes", "points"}], "problems": [...]}."""
        places = [
            {
                "phrase": self.phrase(place),
                "span": list(place.span),
                "boxes": [[round(x, 2) for x in box] for box in place.boxes],
                "points": [[round(x, 2) for x in point] for point in place.points],
            }
            for place in self.places
        ]
        problems = [{"at": one.at, "reason": one.reason, "piece": one.piece} for one in self.problems]
        return {"text": self.text, "places": places, "problems": problems}


@dataclass(frozen=True)
class Written:
    """A text in some format, and why places of it were left out."""

    text: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """The image that coordinates refer to: its size in pixels, and that at which the model saw it, if that counts."""

    width: int
    height: int
    seen: tuple[int, int] | None = None  # Qwen2.5-VL alone needs it

    def __post_init__(self) -> None:
        if min(self.width, self.height, *(self.seen or ())) < 1:
            raise ValueError(f"an image of {self.width} x {self.height} pixels has no places")


def seen_by_qwen(
    size: tuple[int, int], max_pixels: int, min_pixels: int = 4 * 28 * 28, factor: int = 28
) -> tuple[int, int]:
    """The size at which Qwen2-VL and Qwen2.5-VL look at an image: sides rounded to multiples of `factor`, then both
    scaled, the aspect kept as far as that allows, until the area lies between the two limits of the processor."""
    width, height = size
    across, down = (max(factor, round(side / factor) * factor) for side in size)
    if across * down > max_pixels:
        by = math.sqrt(width * height / max_pixels)
        across, down = (max(factor, math.floor(side / by / factor) * factor) for side in size)
    elif across * down < min_pixels:
        by = math.sqrt(min_pixels / (width * height))
        across, down = (math.ceil(side * by / factor) * factor for side in size)
    return across, down


def grounded_of(row: Mapping[str, Any]) -> Grounded:
    """The inverse of `Grounded.to_dict`; ValueError, KeyError or TypeError for anything else."""
    text = str(row["text"])
    places = []
    for one in row.get("places", ()):
        start, end = (int(x) for x in one["span"])
        if not 0 <= start <= end <= len(text):
            raise ValueError(f"the span {start} to {end} is not in a text of {len(text)} characters")
        boxes = tuple(_box(box) for box in one.get("boxes", ()))
        points = tuple(_point(point) for point in one.get("points", ()))
        places.append(Place((start, end), boxes, points))
    return Grounded(text, tuple(places))


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def _box(value: Any) -> Box:
    left, top, right, bottom = (_finite(x) for x in value)
    return left, top, right, bottom


def _point(value: Any) -> Point:
    x, y = (_finite(each) for each in value)
    return x, y
