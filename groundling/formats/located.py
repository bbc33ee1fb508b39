"""Phrases with location tokens: Florence-2 (after the phrase, xyxy) and PaliGemma (before it, yxyx).

Florence-2   red car<loc_53><loc_334><loc_933><loc_775>
PaliGemma    <loc0722><loc0047><loc0895><loc0378> car ; <loc0100><loc0200><loc0300><loc0400> dog
"""

from __future__ import annotations

import re

from groundling.formats.grounded import Grounded, View, Written
from groundling.formats.reading import Reading, scaled
from groundling.formats.tagged import BROKEN, IGNORED
from groundling.formats.writing import in_bins, named_boxes
from groundling.types import Box

BINS = 1000  # Florence-2
FLORENCE = re.compile(rf"<loc_(\d{{1,8}})>|{IGNORED.pattern}|{BROKEN}")


def read_florence(raw: str, view: View) -> Grounded:
    """Each run of locations belongs to the words since the run before it. A bin stands for its middle."""
    reading = Reading(raw)
    at, span, values, start = 0, (0, 0), list[float](), 0
    for found in FLORENCE.finditer(reading.raw):
        piece = reading.raw[at : found.start()]
        at = found.end()
        if piece.strip():
            _florence_place(reading, start, span, values, view)
            span, values = reading.add_text(piece), []
        if found[1]:
            start = start if values else found.start()
            values.append(float(found[1]))
        elif not IGNORED.fullmatch(found[0]):
            reading.problem(found.start(), "a tag that is unknown here, or half of one", found[0])
    _florence_place(reading, start, span, values, view)
    reading.add_text(reading.raw[at:])
    return reading.done()


def _florence_place(reading: Reading, at: int, span: tuple[int, int], values: list[float], view: View) -> None:
    if not values:
        return
    if len(values) % 4:
        reading.problem(at, f"a box has four locations, here are {len(values)}")
    else:
        values = [BINS - 0.5 if value == BINS else value for value in values]  # its own processor gives 1000, too
        fours = (values[i : i + 4] for i in range(0, len(values), 4))
        found = (scaled(reading, at, four, BINS, view, offset=0.5) for four in fours)
        reading.place(span, [box for box in found if box])
    reading.end_place(", ")


def write_florence(grounded: Grounded, view: View) -> Written:
    left_out: list[str] = []
    out: list[str] = []
    last = ""
    for phrase, box in named_boxes(grounded, left_out):
        if not phrase:
            left_out.append("it names nothing")
            continue
        out += [phrase if phrase != last else "", *(f"<loc_{b}>" for b in in_bins(box, view, BINS))]
        last = phrase
    return Written("".join(out), tuple(left_out))


# ---------------------------------------------------------------- PaliGemma

CELLS = 1024
PALIGEMMA = re.compile(rf"<loc(\d{{4}})>|<seg\d{{3}}>|;|{IGNORED.pattern}|{BROKEN}")


def read_paligemma(raw: str, view: View) -> Grounded:
    """`;` parts the objects: four locations (y1, x1, y2, x2), perhaps the tokens of a mask, a name."""
    reading = Reading(raw)
    at, values, name, start = 0, list[float](), list[str](), 0
    for found in PALIGEMMA.finditer(reading.raw):
        if piece := reading.raw[at : found.start()].strip():
            name.append(f" {piece}")
        at = found.end()
        if found[0] == ";" or (found[1] and values and name):
            _paligemma_place(reading, start, values, "".join(name), view)
            values, name, start = [], [], at
        if found[1]:
            values.append(float(found[1]))
        elif found[0] != ";" and not found[0].startswith("<seg") and not IGNORED.fullmatch(found[0]):
            reading.problem(found.start(), "a tag that is unknown here, or half of one", found[0])
    name.append(reading.raw[at:])
    _paligemma_place(reading, start, values, "".join(name), view)
    return reading.done()


def _paligemma_place(reading: Reading, at: int, values: list[float], name: str, view: View) -> None:
    if not (values or name.strip()):
        return
    span = reading.add_text(name)
    reading.end_place(", ")
    if len(values) != 4:
        reading.problem(at, f"a box has four locations, here are {len(values)}", name.strip())
        return
    y1, x1, y2, x2 = values
    if box := scaled(reading, at, (x1, y1, x2, y2), CELLS, view):
        reading.place(span, [box])


def write_paligemma(grounded: Grounded, view: View) -> Written:
    left_out: list[str] = []
    return Written(
        " ; ".join(_paligemma(phrase, box, view) for phrase, box in named_boxes(grounded, left_out)), tuple(left_out)
    )


def _paligemma(phrase: str, box: Box, view: View) -> str:
    x1, y1, x2, y2 = in_bins(box, view, CELLS)
    return "".join(f"<loc{value:04d}>" for value in (y1, x1, y2, x2)) + " " + phrase.replace(";", ",")
