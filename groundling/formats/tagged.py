"""Captions whose phrases and places stand in tags: Kosmos-2, Qwen-VL, Qwen2-VL, InternVL.

Kosmos-2   <phrase> a snowman</phrase><object><patch_index_0044><patch_index_0863></object>
Qwen-VL    <ref> Woman</ref><box>(451,379),(731,806)</box>
Qwen2-VL   <|object_ref_start|>person<|object_ref_end|><|box_start|>(123,456),(789,911)<|box_end|>
InternVL   <ref>bus</ref><box>[[290, 202, 835, 851]]</box>
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from groundling.formats.grounded import Grounded, View, Written
from groundling.formats.reading import Reading, numbers, scaled
from groundling.formats.writing import cut, on_grid, shares
from groundling.types import Box, Span

IGNORED = re.compile(
    r"</?(?:s|pad|bos|eos|unk|image|img|grounding|chat|doc)>|<\|[a-z_]{1,40}\|>|<(?:start|end)_of_turn>|<[A-Z_]{2,60}>"
)
BROKEN = r"<[^<>]{1,60}>|</?\|?[a-zA-Z_]\w{0,40}\|?/?"  # a tag that nobody knows, or the half of one
SIGNS = r"[\d\s.,;()\[\]+-]"  # that boxes are written with


@dataclass(frozen=True)
class Tags:
    """One format: its tags, and how boxes stand between them."""

    name: tuple[str, str]  # around a phrase
    where: tuple[str, str]  # around its boxes
    read_boxes: Callable[[Reading, int, str, View], list[Box]]
    write_box: Callable[[Box, View], str]
    between: str = ""  # two boxes of a phrase
    around: tuple[str, str] = ("", "")  # all boxes of a phrase, within the tags
    each: bool = False  # box stands in tags of its own
    start: str = ""  # of a caption
    spaced: bool = False  # the space before a phrase stands inside its tags
    inner: str = r"(?!)"  # tags that are part of a box

    def tokens(self) -> re.Pattern[str]:
        known = "|".join(re.escape(tag) for tag in (*self.name, *self.where))
        return re.compile(f"{known}|{self.inner}|{IGNORED.pattern}|{BROKEN}")

    def read(self, raw: str, view: View) -> Grounded:
        reading = Reading(raw)
        state = _State(self, reading, view)
        at = 0
        for found in self.tokens().finditer(reading.raw):
            state.words(reading.raw[at : found.start()])
            state.tag(found[0], found.start())
            at = found.end()
        state.words(reading.raw[at:])
        state.close(len(reading.raw))
        return reading.done()

    def write(self, grounded: Grounded, view: View) -> Written:
        left_out: list[str] = []
        out = [self.start]
        for before, phrase, place in cut(grounded, left_out, unnamed=True):
            if place is None:
                out.append(before)
                continue
            space = " " if self.spaced and before[-1:].isspace() else ""
            out.append(before[:-1] if space else before)
            out.append(f"{self.name[0]}{space}{phrase}{self.name[1]}" if phrase else space)
            boxes = [self.write_box(box, view) for box in place.boxes]
            groups = boxes if self.each else [self.between.join(boxes).join(self.around)]
            out += [f"{self.where[0]}{group}{self.where[1]}" for group in groups]
        return Written("".join(out).strip(), tuple(left_out))


class _State:
    """Where in an output we are: outside, in a phrase, or in its boxes."""

    def __init__(self, tags: Tags, reading: Reading, view: View) -> None:
        self.tags, self.reading, self.view = tags, reading, view
        self.open = ""  # the tag that is open
        self.since = 0  # where it stands
        self.held: list[str] = []  # what came since
        self.span: Span | None = None  # of the last phrase
        self.boxes: list[Box] = []  # of it, so far

    def words(self, piece: str) -> None:
        if self.open:
            self.held.append(piece)
        elif piece.strip():
            self.settle(self.since)
            self.reading.add_text(piece)
        else:
            self.reading.add_text(piece)

    def tag(self, tag: str, at: int) -> None:
        (name, named), (where, placed) = self.tags.name, self.tags.where
        if tag in (name, where):
            self.close(at, settle=tag == name)
            self.open, self.since = tag, at
        elif tag in (named, placed):
            self._closing(tag, at)
        elif self.open == where and re.fullmatch(self.tags.inner, tag):
            self.held.append(tag)
        elif not IGNORED.fullmatch(tag):
            self.reading.problem(at, "a tag that is unknown here, or half of one", tag)

    def _closing(self, tag: str, at: int) -> None:
        if self.open == self.tags.name[0] and tag == self.tags.name[1]:
            self.span = self.reading.add_text("".join(self.held))
        elif self.open == self.tags.where[0] and tag == self.tags.where[1]:
            self.boxes += self.tags.read_boxes(self.reading, self.since, "".join(self.held), self.view)
        else:
            self.reading.problem(at, "a tag closes what was not open", tag)
            return
        self.open, self.held = "", []

    def close(self, at: int, settle: bool = True) -> None:
        """What is open ends here, though nothing closed it; read of it is what can be."""
        held, opened = "".join(self.held), self.open
        self.open, self.held = "", []
        if opened:
            self.reading.problem(self.since, "a tag is never closed", opened + held)
        if opened == self.tags.where[0]:
            self._unclosed(held)
        elif opened:
            self.reading.add_text(held)
        if settle:
            self.settle(at)

    def _unclosed(self, held: str) -> None:
        """Boxes that are complete, then the words that follow them."""
        found = re.match(f"(?:{self.tags.inner}|{SIGNS}){{0,400}}", held)
        signs = found[0] if found else ""
        if signs.rstrip()[-1:] in (")", "]", ">"):
            self.boxes += self.tags.read_boxes(self.reading, self.since, signs, self.view)
        if held[len(signs) :].strip():
            self.settle(self.since)
        self.reading.add_text(held[len(signs) :])

    def settle(self, at: int) -> None:
        """The last phrase has all the boxes that it will get."""
        if self.boxes:
            self.reading.place(self.span or self.reading.add_text(), self.boxes)
            self.reading.end_place()
        elif self.span:
            self.reading.problem(at, "a phrase without a box")
        self.span, self.boxes = None, []


# ---------------------------------------------------------------- boxes of Qwen-VL, Qwen2-VL and InternVL


def _thousandths(reading: Reading, at: int, piece: str, view: View) -> list[Box]:
    """(x,y),(x,y), or several of them."""
    values = numbers(piece)
    if not values or len(values) % 4:
        reading.problem(at, f"a box has four numbers, here are {len(values)}", piece)
        return []
    found = (scaled(reading, at, values[i : i + 4], 1000, view) for i in range(0, len(values), 4))
    return [box for box in found if box]


GROUP = re.compile(r"\[([^\[\]]{0,400})\]")


def _lists(reading: Reading, at: int, piece: str, view: View) -> list[Box]:
    """[[x1, y1, x2, y2], ...]"""
    groups = [numbers(group) for group in GROUP.findall(piece)]
    if not groups:
        reading.problem(at, "expected [[x1, y1, x2, y2]]", piece)
    return [box for group in groups if (box := scaled(reading, at, group, 1000, view))]


def _pairs(box: Box, view: View) -> str:
    x1, y1, x2, y2 = (min(999, value) for value in on_grid(box, view, 1000))
    return f"({x1},{y1}),({x2},{y2})"


def _list(box: Box, view: View) -> str:
    return str(list(on_grid(box, view, 1000)))


# ---------------------------------------------------------------- boxes of Kosmos-2

CELLS = 32  # along each side
PATCH = re.compile(r"<patch_index_(\d{1,8})>")
DELIMITER = "</delimiter_of_multi_objects/>"


def _patches(reading: Reading, at: int, piece: str, view: View) -> list[Box]:
    boxes = []
    for group in piece.split(DELIMITER):
        cells = [int(index) for index in PATCH.findall(group)]
        if len(cells) != 2 or max(cells) >= CELLS * CELLS:
            reading.problem(at, f"a box has two patches from 0 to {CELLS * CELLS - 1}", group)
            continue
        (y1, x1), (y2, x2) = (divmod(cell, CELLS) for cell in cells)
        if x1 > x2 or y1 > y2:
            reading.problem(at, "the corners are in the wrong order: put in order", group)
            (x1, x2), (y1, y2) = sorted((x1, x2)), sorted((y1, y2))
        low, high = (0.0, 1.0) if x1 == x2 or y1 == y2 else (0.5, 0.5)  # outer edges, or the centres of the cells
        wide, tall = view.width / CELLS, view.height / CELLS
        boxes.append(((x1 + low) * wide, (y1 + low) * tall, (x2 + high) * wide, (y2 + high) * tall))
    return boxes


def _patch(box: Box, view: View) -> str:
    x1, y1, x2, y2 = shares(box, view)
    left, top = (max(0, min(CELLS - 1, math.floor(value * CELLS))) for value in (x1, y1))
    right = max(left, min(CELLS - 1, math.ceil(x2 * CELLS) - 1))
    bottom = max(top, min(CELLS - 1, math.ceil(y2 * CELLS) - 1))
    return f"<patch_index_{top * CELLS + left:04d}><patch_index_{bottom * CELLS + right:04d}>"


KOSMOS_2 = Tags(
    name=("<phrase>", "</phrase>"),
    where=("<object>", "</object>"),
    read_boxes=_patches,
    write_box=_patch,
    between=DELIMITER,
    start="<grounding> ",
    spaced=True,
    inner=f"{PATCH.pattern}|{re.escape(DELIMITER)}",
)
QWEN_VL = Tags(("<ref>", "</ref>"), ("<box>", "</box>"), _thousandths, _pairs, each=True)
QWEN2_VL = Tags(
    ("<|object_ref_start|>", "<|object_ref_end|>"), ("<|box_start|>", "<|box_end|>"), _thousandths, _pairs, each=True
)

INTERNVL = Tags(("<ref>", "</ref>"), ("<box>", "</box>"), _lists, _list, between=", ", around=("[", "]"))
