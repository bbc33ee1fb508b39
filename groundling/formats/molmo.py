"""Molmo points at things: <point x="52.3" y="61.0" alt="the dog">the dog</point>, and <points x1=".." y1=".." ...>.

Coordinates are hundredths of the width and height, with one decimal.
"""

from __future__ import annotations

import math
import re

from groundling.formats.grounded import Grounded, Place, Point, View, Written
from groundling.formats.reading import Reading
from groundling.formats.tagged import BROKEN, IGNORED
from groundling.formats.writing import plain

TOKEN = re.compile(rf"<points?\b([^<>]{{0,20000}})>|</points?>|{IGNORED.pattern}|{BROKEN}")
VALUE = re.compile(r"""\b([xy]\d{0,5})\s{0,3}=\s{0,3}["']?\s{0,3}(-?\d{1,9}(?:\.\d{0,9})?)(?![\d.])""")
ALT = re.compile(r"""\balt\s{0,3}=\s{0,3}(?:"([^"]{0,2000})"|'([^']{0,2000})')""")


def read(raw: str, view: View) -> Grounded:
    reading = Reading(raw)
    at, opened = 0, None
    for found in TOKEN.finditer(reading.raw):
        piece = reading.raw[at : found.start()]
        at = found.end()
        if found[1] is not None:
            if opened is not None:
                reading.problem(opened.start(), "a tag is never closed", opened[0])
            reading.add_text(piece)
            opened = found
        elif found[0].startswith("</point"):
            _place(reading, opened, piece, found.start(), view)
            opened = None
        else:
            reading.add_text(piece)
            if not IGNORED.fullmatch(found[0]):
                reading.problem(found.start(), "a tag that is unknown here, or half of one", found[0])
    if opened is not None:
        reading.problem(opened.start(), "a tag is never closed", opened[0])
    reading.add_text(reading.raw[at:])
    return reading.done()


def _place(reading: Reading, opened: re.Match[str] | None, words: str, at: int, view: View) -> None:
    if opened is None:
        reading.add_text(words)
        reading.problem(at, "a tag closes what was not open")
        return
    named = ALT.search(opened[1])
    span = reading.add_text(words if words.strip() or not named else named[1] or named[2] or "")
    reading.place(span, points=_points(reading, opened, view))


def _points(reading: Reading, opened: re.Match[str], view: View) -> list[Point]:
    values: dict[str, float] = {}
    for name, number in VALUE.findall(ALT.sub("", opened[1])):
        values.setdefault(name, float(number))
    points = []
    for name in [name for name in values if name[0] == "x"]:
        x, y = values[name], values.pop("y" + name[1:], math.nan)
        if 0 <= x <= 100 and 0 <= y <= 100:
            points.append((x / 100 * view.width, y / 100 * view.height))
        else:
            reason = "has no y" if math.isnan(y) else "is outside 0 to 100"
            reading.problem(opened.start(), f"the point {name} = {x:g} {reason}", opened[0])
    if not values or any(name[0] == "y" for name in values):
        reading.problem(opened.start(), "a point without x", opened[0])
    return points


def write(grounded: Grounded, view: View) -> Written:
    """Places that have boxes and no points are pointed at in the middle of their boxes."""
    left_out: list[str] = []
    out: list[str] = []
    at = 0
    for place in sorted(grounded.places, key=lambda place: place.span):
        start, end = place.span
        if start < at:
            left_out.append("its words are in another place, too")
            continue
        phrase = plain(grounded.text[start:end]).replace('"', "'")
        out += [plain(grounded.text[at:start]), _tag(phrase, _middles(place), view)]
        at = end
    out.append(plain(grounded.text[at:]))
    return Written("".join(out).strip(), tuple(left_out))


def _middles(place: Place) -> list[Point]:
    return list(place.points) or [((x1 + x2) / 2, (y1 + y2) / 2) for x1, y1, x2, y2 in place.boxes]


def _tag(phrase: str, points: list[Point], view: View) -> str:
    parts = [
        (max(0.0, min(100.0, 100 * x / view.width)), max(0.0, min(100.0, 100 * y / view.height))) for x, y in points
    ]
    if len(parts) == 1:
        return f'<point x="{parts[0][0]:.1f}" y="{parts[0][1]:.1f}" alt="{phrase}">{phrase}</point>'
    values = " ".join(f'x{i}="{x:.1f}" y{i}="{y:.1f}"' for i, (x, y) in enumerate(parts, start=1))
    return f'<points {values} alt="{phrase}">{phrase}</points>'
