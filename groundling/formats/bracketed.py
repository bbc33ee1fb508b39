"""Captions in which square brackets with numbers follow the words that they place: Shikra, Ferret, CogVLM.

    Shikra   the man [0.201,0.002,0.940,0.758;0.1,0.2,0.3,0.4] is ...   of the image padded to a square
    Ferret   The man [201, 2, 940, 758] is ...                          of a grid of 1000
    CogVLM   a dog [[086,540,400,760;100,200,300,400]] and ...          of a grid of 1000

Nothing marks where the words begin that a place belongs to: `reading.phrase_before` says which are taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from groundling.formats.grounded import Grounded, View, Written
from groundling.formats.reading import Reading, inside, numbers, scaled
from groundling.formats.writing import cut, on_grid
from groundling.types import Box, Span

TOKEN = re.compile(r"\[{1,2}[^\[\]]{0,2000}\]{1,2}|\[{1,2}[\d\s.,;+-]{0,2000}|\]{1,2}")
NUMERIC = re.compile(r"[\s\d.,;+eE-]*\d[\s\d.,;+eE-]*")
JOINS = {"", ",", ";", "and"}  # between two brackets: both belong to the same words


@dataclass(frozen=True)
class Brackets:
    """One format: how four numbers become a box, and back; and what stands around and between boxes."""

    read_box: Callable[[Reading, int, list[float], View], Box | None]
    write_box: Callable[[Box, View], str]
    open: str = "["
    close: str = "]"
    between: str = ";"

    def read(self, raw: str, view: View) -> Grounded:
        reading = Reading(raw)
        at, span, boxes = 0, (0, 0), list[Box]()
        for found in TOKEN.finditer(reading.raw):
            piece = reading.raw[at : found.start()]
            at = found.end()
            new = self._boxes(reading, found.start(), found[0], view)
            if new is None:  # words in brackets
                span, boxes = _settled(reading, span, boxes)
                reading.add_text(piece + found[0])
            elif not (boxes and piece.strip() in JOINS):
                _settled(reading, span, boxes)
                reading.add_text(piece)
                span, boxes = (reading.phrase() if new else (0, 0)), new
            else:
                boxes += new
        _settled(reading, span, boxes)
        reading.add_text(reading.raw[at:])
        return reading.done()

    def _boxes(self, reading: Reading, at: int, piece: str, view: View) -> list[Box] | None:
        """Those of one pair of brackets; none, and a problem, of a broken one; None where it holds words."""
        inner = piece.strip("[]")
        if not (piece.startswith("[") and piece.endswith("]")):
            reading.problem(at, "a bracket without its other half", piece)
            return []
        if not inner.strip():
            reading.problem(at, "brackets with nothing in them", piece)
            return []
        if not NUMERIC.fullmatch(inner):
            if len(numbers(inner)) < 2:
                return None
            reading.problem(at, "letters among the numbers of a box", piece)
            return []
        found = (self.read_box(reading, at, numbers(group), view) for group in inner.split(";"))
        return [box for box in found if box]

    def write(self, grounded: Grounded, view: View) -> Written:
        left_out: list[str] = []
        out = []
        for before, phrase, place in cut(grounded, left_out):
            out.append(before)
            if place is not None:
                boxes = self.between.join(self.write_box(box, view) for box in place.boxes)
                out.append(f"{phrase} {self.open}{boxes}{self.close}")
        return Written("".join(out).strip(), tuple(left_out))


def _settled(reading: Reading, span: Span, boxes: list[Box]) -> tuple[Span, list[Box]]:
    """The place is complete."""
    if boxes:
        reading.place(span, boxes)
        reading.end_place()
    return (0, 0), []


def _thousandths(reading: Reading, at: int, values: list[float], view: View) -> Box | None:
    return scaled(reading, at, values, 1000, view)


def _square(view: View) -> tuple[int, int, int]:
    """Side of the square that an image is padded to, and what is added at its left and top."""
    side = max(view.width, view.height)
    return side, (side - view.width) // 2, (side - view.height) // 2


def _of_square(reading: Reading, at: int, values: list[float], view: View) -> Box | None:
    side, left, top = _square(view)
    box = scaled(reading, at, values, 1, View(side, side))
    return box and inside(
        reading, at, (box[0] - left, box[1] - top, box[2] - left, box[3] - top), view, slack=side / 1000
    )


def _in_square(box: Box, view: View) -> str:
    side, left, top = _square(view)
    moved = (box[0] + left, box[1] + top, box[2] + left, box[3] + top)
    return ",".join(f"{max(0.0, min(1.0, x / side)):.3f}" for x in moved)


def _with_spaces(box: Box, view: View) -> str:
    return ", ".join(str(x) for x in on_grid(box, view, 1000))


def _three_digits(box: Box, view: View) -> str:
    return ",".join(f"{min(x, 999):03d}" for x in on_grid(box, view, 1000))


SHIKRA = Brackets(_of_square, _in_square)
FERRET = Brackets(_thousandths, _with_spaces, between="] [")
COGVLM = Brackets(_thousandths, _three_digits, "[[", "]]")
