"""How the output of a model is parsed: its text, the places in it, and what could not be read.

Readers walk an output from left to right, once. Every pattern that they search with is bounded or cannot match the
same characters in two ways, so time grows with the length of an output, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groundling.formats.grounded import Grounded, Place, Point, Problem, View
from groundling.types import Box, Span

LONGEST = 1_000_000  # characters of an output that are read
MOST = 10_000  # places of one output
SHOWN = 80  # characters of a piece that a problem shows
NUMBER = re.compile(r"[-+]?(?:\d{1,12}(?:\.\d{0,20})?|\.\d{1,20})(?![\d.eE])")
GLUED = ",.;:!?)]}'’”%"  # no space belongs before these


class Reading:
    """The caption so far. Spaces are made single, and none is left before a full stop where a place was taken out."""

    def __init__(self, raw: str) -> None:
        self.raw = raw[:LONGEST]
        self._parts: list[str] = []
        self._length = 0
        self._gap = ""  # what stands before the next word
        self._since = 0  # the character after the last place
        self._places: list[Place] = []
        self._problems: list[Problem] = []
        if len(raw) > LONGEST:
            self.problem(LONGEST, f"only the first {LONGEST:,} characters are read")

    def add_text(self, piece: str = "") -> Span:
        """Append to the text; returns the characters that the words of the piece have in it."""
        words = " ".join(piece.split())
        if not words:
            self._gap = self._gap or (" " if piece else "")
            return self._length, self._length
        gap = self._gap or (" " if piece[0].isspace() else "")
        if self._length and words[0] not in GLUED:
            self._add(gap)
        start = self._length
        self._add(words)
        self._gap = " " if piece[-1].isspace() else ""
        return start, self._length

    def end_place(self, separator: str = " ") -> None:
        """A place ended here: this stands before the next word."""
        self._gap, self._since = separator, self._length

    def phrase(self) -> Span:
        """The last phrase of the text since the last place; empty where there is none."""
        parts: list[str] = []
        length = 0
        for part in reversed(self._parts):
            if length >= REACH or length >= self._length - self._since:
                break
            parts.append(part)
            length += len(part)
        tail = "".join(reversed(parts))[-min(REACH, self._length - self._since) or length + 1 :]
        start, end = phrase_before(tail)
        shift = self._length - len(tail)
        return shift + start, shift + end

    def place(self, span: Span, boxes: Sequence[Box] = (), points: Sequence[Point] = ()) -> None:
        if len(self._places) == MOST:
            self.problem(0, f"only the first {MOST:,} places are read")
        if len(self._places) < MOST and (boxes or points):
            self._places.append(Place(span, tuple(boxes), tuple(points)))

    def problem(self, at: int, reason: str, piece: str = "") -> None:
        if len(self._problems) < MOST:
            shown = piece if len(piece) <= SHOWN else piece[: SHOWN - 1] + "…"
            self._problems.append(Problem(at, reason, shown))

    def done(self) -> Grounded:
        if not (self._parts or self._places or self._problems):
            self.problem(0, "the output is empty")
        return Grounded("".join(self._parts), tuple(self._places), tuple(self._problems))

    def _add(self, piece: str) -> None:
        self._parts.append(piece)
        self._length += len(piece)


def numbers(piece: str) -> list[float]:
    """The decimal numbers of a short piece; those of more digits than anyone needs are none."""
    return [float(found[0]) for found in NUMBER.finditer(piece)]


def scaled(
    reading: Reading, at: int, values: Sequence[float], grid: float, view: View, offset: float = 0.0
) -> Box | None:
    """A box in pixels of four values from 0 to `grid` (xyxy), `offset` being where in its bin a value stands.

    None, and a problem, where they are no box; a box that leaves the image is cut at its edge, which is a problem, too.
    """
    piece = ", ".join(f"{value:g}" for value in values)
    if len(values) != 4:
        reading.problem(at, f"a box has four numbers, here are {len(values)}", piece)
        return None
    x1, y1, x2, y2 = ((value + offset) / grid for value in values)
    if beyond := [value for value in values if value > grid or value < 0]:
        reading.problem(at, f"{beyond[0]:g} is outside 0 to {grid:g}: cut at the edge of the image", piece)
    if x1 > x2 or y1 > y2:
        reading.problem(at, "the corners are in the wrong order: put in order", piece)
    return inside(reading, at, (x1 * view.width, y1 * view.height, x2 * view.width, y2 * view.height), view)


def inside(reading: Reading, at: int, box: Box, view: View, slack: float = 0.0) -> Box | None:
    """The part of a box that is in the image; None, and a problem, where it is outside by more than `slack`."""
    (left, right), (top, bottom) = sorted((box[0], box[2])), sorted((box[1], box[3]))
    width, height = float(view.width), float(view.height)
    if right < -slack or bottom < -slack or left > width + slack or top > height + slack:
        reading.problem(at, "the box is outside of the image", ", ".join(f"{x:g}" for x in box))
        return None
    x1, x2 = (max(0.0, min(width, x)) for x in (left, right))
    y1, y2 = (max(0.0, min(height, y)) for y in (top, bottom))
    return x1, y1, x2, y2


# ---------------------------------------------------------------- words before a place

REACH = 200  # characters in which a phrase is looked for
BEFORE = 6  # words that a phrase has at most where nothing marks its beginning
STARTS = (
    "a an the this that these those his her its their my your our some any each every another one two three four "
    "five six seven eight nine ten several many both no"
)
ENDS = (
    "of in on at by to with from into onto over under near behind beside between above below inside outside through "
    "across around along and or but while as for is are was were be being been has have had holding wearing sitting "
    "standing walking riding looking playing next there which who whose it he she they"
)
_STARTS, _ENDS = frozenset(STARTS.split()), frozenset(ENDS.split())
WORD = re.compile(r"\S+")


def phrase_before(text: str) -> Span:
    """The characters of the phrase that ends a text, where only its end is marked: "there is a red car" -> "a red car".

    From the last article or number, else from after the last word that cannot be in a short noun phrase.
    """
    found = list(WORD.finditer(text))[-BEFORE:]
    end = len(text.rstrip())
    start = end
    for word in reversed(found):
        plain = word[0].lower()
        if plain in _ENDS or (start != end and plain[-1] in ",.;:!?)"):
            break
        start = word.start()
        if plain in _STARTS:
            break
    return start, end
