"""Lists of objects in JSON: Qwen2.5-VL, Qwen3-VL, Gemini, Moondream.

    Qwen2.5-VL   [{"bbox_2d": [135, 114, 1016, 672], "label": "house"}]   pixels of the image as the model saw it
    Qwen3-VL     the same                                                 of a grid of 1000
    Gemini       [{"box_2d": [10, 20, 110, 120], "label": "cat"}]         y before x, of a grid of 1000
    Moondream    {"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 0.3, "y_max": 0.4}]}   parts of the image

Models put words and a code fence around the JSON, and stop in the middle of it: then the objects that are complete are
read one by one. The text of such an output is its labels, with commas between them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundling.errors import GroundlingError
from groundling.formats.grounded import Grounded, View, Written
from groundling.formats.reading import MOST, Reading, inside, scaled
from groundling.formats.writing import named_boxes, on_grid, shares
from groundling.types import Box

FENCE = re.compile(r"```[a-zA-Z]{0,10}")
OBJECT = re.compile(r"\{[^{}]{0,4000}\}")
NAMES = ("label", "name", "text_content", "description", "category", "object")  # where the name of an object may stand
REST = re.compile(r'[\s\[\],{}:]|"(?:objects|points)"')  # of a list whose objects were taken out


@dataclass(frozen=True)
class Listed:
    """One format: how the fields of an object become a box or a point, and how a box becomes fields."""

    box_of: Callable[[Reading, int, Mapping[str, Any], View], Box | None]
    point_of: Callable[[Mapping[str, Any], View], tuple[float, float] | None]
    fields: Callable[[Box, View], dict[str, Any]]
    key: str = ""  # of the object that the list stands in

    def read(self, raw: str, view: View) -> Grounded:
        reading = Reading(raw)
        for at, row in _objects(reading):
            name = next((row[key] for key in NAMES if isinstance(row.get(key), str)), "")
            span = reading.add_text(name)
            reading.end_place(", ")
            if point := self.point_of(row, view):
                reading.place(span, points=[point])
            elif box := self.box_of(reading, at, row, view):
                reading.place(span, [box])
        return reading.done()

    def write(self, grounded: Grounded, view: View) -> Written:
        left_out: list[str] = []
        rows = [
            self.fields(box, view) | ({"label": phrase} if phrase else {})
            for phrase, box in named_boxes(grounded, left_out)
        ]
        text = json.dumps({self.key: rows} if self.key else rows, ensure_ascii=False)
        return Written(text if self.key else f"```json\n{text}\n```", tuple(left_out))


# ---------------------------------------------------------------- finding the objects


def _objects(reading: Reading) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(where it stands, its fields), of each object that can be read."""
    whole = _parsed(FENCE.sub("", reading.raw).strip())
    if isinstance(whole, dict):
        lists = [whole[key] for key in ("objects", "points") if isinstance(whole.get(key), list)]
        whole = [row for rows in lists for row in rows] if lists else [whole]
    if not isinstance(whole, list):
        yield from _scattered(reading)
        return
    if not whole:
        reading.problem(0, "an empty list: nothing was found in the image")
    for row in whole[:MOST]:
        if isinstance(row, dict):
            yield 0, row
        else:
            reading.problem(0, "a list of objects was expected", repr(row)[:100])


def _scattered(reading: Reading) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The innermost {...} of a text that is not JSON as a whole; the rest of it is a problem."""
    at, rest = 0, []
    for found in OBJECT.finditer(reading.raw):
        rest.append(reading.raw[at : found.start()])
        at = found.end()
        row = _parsed(found[0])
        if row is None and '"' not in found[0]:
            row = _parsed(found[0].replace("'", '"'))
        if isinstance(row, dict):
            yield found.start(), row
        else:
            reading.problem(found.start(), "not an object of JSON", found[0])
    rest.append(reading.raw[at:])
    around = " ".join(REST.sub(" ", FENCE.sub(" ", "".join(rest))).split())
    if around:
        reading.problem(0, "text around the JSON, or a part of it that is not complete", around)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _four(reading: Reading, at: int, row: Mapping[str, Any], keys: Sequence[str]) -> list[float] | None:
    """Four finite numbers: a list under the one key, or a value under each of four."""
    values = row.get(keys[0]) if len(keys) == 1 else [row.get(key) for key in keys]
    if values is None or values == [None] * len(keys):
        reading.problem(at, f"no {keys[0]!r} in an object", repr(row)[:100])
        return None
    found = _finite(values)
    if found is None or len(found) != 4:
        reading.problem(at, "a box has four numbers", repr(values)[:100])
        return None
    return found


def _finite(values: Any) -> list[float] | None:
    if not isinstance(values, list) or len(values) > 100:
        return None
    try:
        found = [float(value) for value in values if not isinstance(value, bool)]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if len(found) == len(values) and all(math.isfinite(x) and abs(x) < 1e9 for x in found) else None


def _pair(row: Mapping[str, Any], key: str) -> tuple[float, float] | None:
    found = _finite(row.get(key))
    return (found[0], found[1]) if found and len(found) == 2 else None


def _in_image(x: float, y: float, view: View) -> tuple[float, float] | None:
    """A point in pixels of parts of the image; None outside of it."""
    return (x * view.width, y * view.height) if 0 <= x <= 1 and 0 <= y <= 1 else None


# ---------------------------------------------------------------- Qwen2.5-VL


def _seen(view: View) -> tuple[int, int]:
    if view.seen is None:
        raise GroundlingError(
            "Qwen2.5-VL gives pixels of the image as it saw it, resized: give that size with --resized WxH, or the "
            "limit of its processor with --max-pixels N"
        )
    return view.seen


def _qwen25_box(reading: Reading, at: int, row: Mapping[str, Any], view: View) -> Box | None:
    width, height = _seen(view)
    values = _four(reading, at, row, ["bbox_2d"])
    if values is None:
        return None
    x1, y1, x2, y2 = values
    if max(x1, x2) > width or max(y1, y2) > height or min(values) < 0:
        reading.problem(
            at, f"outside of the {width} x {height} pixels that the model saw: cut at the edge", str(values)
        )
    if x1 > x2 or y1 > y2:
        reading.problem(at, "the corners are in the wrong order: put in order", str(values))
    across, down = view.width / width, view.height / height
    return inside(reading, at, (x1 * across, y1 * down, x2 * across, y2 * down), view)


def _qwen25_point(row: Mapping[str, Any], view: View) -> tuple[float, float] | None:
    point = _pair(row, "point_2d")
    width, height = _seen(view)
    return point and _in_image(point[0] / width, point[1] / height, view)


def _qwen25_fields(box: Box, view: View) -> dict[str, Any]:
    width, height = _seen(view)
    x1, y1, x2, y2 = shares(box, view)
    return {"bbox_2d": [round(x1 * width), round(y1 * height), round(x2 * width), round(y2 * height)]}


# ---------------------------------------------------------------- Qwen3-VL, Gemini, Moondream


def _qwen3_box(reading: Reading, at: int, row: Mapping[str, Any], view: View) -> Box | None:
    values = _four(reading, at, row, ["bbox_2d"])
    if values and max(values) > 1000:
        reading.problem(
            at, f"{max(values):g} is above 1000, where Qwen3-VL ends: these may be pixels of Qwen2.5-VL", str(values)
        )
        return None
    return scaled(reading, at, values, 1000, view) if values else None


def _gemini_box(reading: Reading, at: int, row: Mapping[str, Any], view: View) -> Box | None:
    values = _four(reading, at, row, ["box_2d"])
    return scaled(reading, at, [values[1], values[0], values[3], values[2]], 1000, view) if values else None


def _moondream_box(reading: Reading, at: int, row: Mapping[str, Any], view: View) -> Box | None:
    values = _four(reading, at, row, ["x_min", "y_min", "x_max", "y_max"])
    return scaled(reading, at, values, 1, view) if values else None


def _qwen3_point(row: Mapping[str, Any], view: View) -> tuple[float, float] | None:
    point = _pair(row, "point_2d")
    return point and _in_image(point[0] / 1000, point[1] / 1000, view)


def _gemini_point(row: Mapping[str, Any], view: View) -> tuple[float, float] | None:
    point = _pair(row, "point")
    return point and _in_image(point[1] / 1000, point[0] / 1000, view)


def _moondream_point(row: Mapping[str, Any], view: View) -> tuple[float, float] | None:
    point = _finite([row.get("x"), row.get("y")])
    return _in_image(point[0], point[1], view) if point else None


def _gemini_fields(box: Box, view: View) -> dict[str, Any]:
    x1, y1, x2, y2 = on_grid(box, view, 1000)
    return {"box_2d": [y1, x1, y2, x2]}


def _moondream_fields(box: Box, view: View) -> dict[str, Any]:
    values = (round(max(0.0, min(1.0, x)), 4) for x in shares(box, view))
    return dict(zip(("x_min", "y_min", "x_max", "y_max"), values, strict=True))


QWEN25_VL = Listed(_qwen25_box, _qwen25_point, _qwen25_fields)
QWEN3_VL = Listed(_qwen3_box, _qwen3_point, lambda box, view: {"bbox_2d": list(on_grid(box, view, 1000))})
GEMINI = Listed(_gemini_box, _gemini_point, _gemini_fields)
MOONDREAM = Listed(_moondream_box, _moondream_point, _moondream_fields, key="objects")
