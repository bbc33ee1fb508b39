"""The grounded output of captioners and vision-language models, read into one form and written from it.

from groundling import formats

found = formats.read("kosmos-2", raw, (640, 480))
for place in found.places:
    print(found.phrase(place), place.boxes)  # characters of the text, xyxy in pixels
for problem in found.problems:
    print(problem.reason, problem.piece)  # what could not be read; nothing raises
print(formats.write("florence-2", found, (640, 480)).text)

Needs neither torch nor spaCy nor numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from groundling.errors import GroundlingError
from groundling.formats import bracketed, listed, located, molmo, tagged
from groundling.formats.grounded import Grounded, Place, Point, Problem, View, Written, seen_by_qwen
from groundling.formats.reading import Reading
from groundling.formats.writing import plain

__all__ = [
    "FORMATS",
    "Format",
    "Grounded",
    "Place",
    "Point",
    "Problem",
    "View",
    "Written",
    "format_of",
    "guess",
    "read",
    "seen_by_qwen",
    "write",
]


@dataclass(frozen=True)
class Format:
    """One convention: how it is read and written, and what its numbers mean."""

    read: Callable[[str, View], Grounded]
    write: Callable[[Grounded, View], Written]
    about: str  # its coordinates
    example: str
    captions: bool = True  # holds a whole caption; else names of objects alone
    points: bool = False  # gives points, no boxes


MARKS = {  # in a plain caption -> the format that it may be of
    "<patch_index_": "kosmos-2",
    "<loc_": "florence-2",
    "<|box_start|>": "qwen2-vl",
    "<box>[[": "internvl",
    "<box>(": "qwen-vl",
    "<loc0": "paligemma",
    "<point": "molmo",
    '"bbox_2d"': "qwen3-vl or qwen2.5-vl",
    '"box_2d"': "gemini",
    '"x_min"': "moondream",
}


_FOUR = r"\s{0,9}(\d{1,6}(?:\.\d{1,20})?(?:\s{0,9},\s{0,9}\d{1,6}(?:\.\d{1,20})?){3})\s{0,9}"
QWEN = re.compile(r'"bbox_2d"\s{0,9}:\s{0,9}\[' + _FOUR)
BRACKETS = re.compile(r"(\[{1,2})" + _FOUR + r"[\];]")  # opened, four numbers


def _read_plain(raw: str, view: View) -> Grounded:
    """A caption without places."""
    reading = Reading(raw)
    reading.add_text(reading.raw)
    for mark, name in MARKS.items():
        if (at := raw.find(mark)) >= 0:
            reading.problem(at, f"this looks like {name}: name the format", raw[at : at + 40])
            break
    return reading.done()


def _write_plain(grounded: Grounded, view: View) -> Written:
    return Written(plain(grounded.text), ("a plain caption has no places",) * len(grounded.places))


def guess(raw: str) -> str:
    """The name of the format that an output is most likely of, by its marks; "plain" where it has none.

    Boxes in brackets are of shikra where no number is above 1, else of ferret; `bbox_2d` is of qwen2.5-vl, which counts
    pixels, where a number is above 1000, else of qwen3-vl.
    """
    if listed := QWEN.findall(raw):
        return "qwen2.5-vl" if _largest(listed) > 1000 else "qwen3-vl"
    for mark, name in MARKS.items():
        if mark in raw:
            return name.split(" or ")[0]
    brackets = BRACKETS.findall(raw)
    if any(opened == "[[" for opened, _ in brackets):
        return "cogvlm"
    if not brackets:
        return "plain"
    return "ferret" if _largest([numbers for _, numbers in brackets]) > 1 else "shikra"


def _largest(rows: list[str]) -> float:
    """The largest of the numbers in rows of numbers between commas."""
    return max(float(number) for row in rows for number in row.split(","))


FORMATS = {
    "plain": Format(_read_plain, _write_plain, "a caption without places", "a dog on the grass"),
    "kosmos-2": Format(
        tagged.KOSMOS_2.read,
        tagged.KOSMOS_2.write,
        "32 x 32 patches, index = 32 y + x",
        "<grounding> An image of<phrase> a snowman</phrase><object><patch_index_0044><patch_index_0863></object>",
    ),
    "florence-2": Format(
        located.read_florence,
        located.write_florence,
        "x1 y1 x2 y2 in 1000 bins",
        "red car<loc_53><loc_334><loc_933><loc_775>",
        captions=False,
    ),
    "qwen-vl": Format(
        tagged.QWEN_VL.read,
        tagged.QWEN_VL.write,
        "(x1,y1),(x2,y2), 0 to 1000",
        "<ref> Woman</ref><box>(451,379),(731,806)</box>",
    ),
    "qwen2-vl": Format(
        tagged.QWEN2_VL.read,
        tagged.QWEN2_VL.write,
        "(x1,y1),(x2,y2), 0 to 1000",
        "<|object_ref_start|>person<|object_ref_end|><|box_start|>(123,456),(789,911)<|box_end|>",
    ),
    "qwen2.5-vl": Format(
        listed.QWEN25_VL.read,
        listed.QWEN25_VL.write,
        "x1 y1 x2 y2 in pixels of the image as the model saw it: needs that size",
        '[{"bbox_2d": [135, 114, 1016, 672], "label": "house"}]',
        captions=False,
    ),
    "qwen3-vl": Format(
        listed.QWEN3_VL.read,
        listed.QWEN3_VL.write,
        "x1 y1 x2 y2, 0 to 1000",
        '[{"bbox_2d": [135, 114, 916, 672], "label": "house"}]',
        captions=False,
    ),
    "shikra": Format(
        bracketed.SHIKRA.read,
        bracketed.SHIKRA.write,
        "x1 y1 x2 y2, 0 to 1 of the image padded to a square",
        "the man [0.201,0.002,0.940,0.758] is running",
    ),
    "ferret": Format(
        bracketed.FERRET.read,
        bracketed.FERRET.write,
        "x1 y1 x2 y2, 0 to 1000",
        "The man [201, 2, 940, 758] is running",
    ),
    "cogvlm": Format(
        bracketed.COGVLM.read,
        bracketed.COGVLM.write,
        "x1 y1 x2 y2, 000 to 999",
        "a dog [[086,540,400,760]] on the grass",
    ),
    "internvl": Format(
        tagged.INTERNVL.read,
        tagged.INTERNVL.write,
        "x1 y1 x2 y2, 0 to 1000",
        "<ref>bus</ref><box>[[290, 202, 835, 851]]</box>",
    ),
    "paligemma": Format(
        located.read_paligemma,
        located.write_paligemma,
        "y1 x1 y2 x2 in 1024 bins",
        "<loc0722><loc0047><loc0895><loc0378> car",
        captions=False,
    ),
    "gemini": Format(
        listed.GEMINI.read,
        listed.GEMINI.write,
        "y1 x1 y2 x2, 0 to 1000",
        '[{"box_2d": [10, 20, 110, 120], "label": "cat"}]',
        captions=False,
    ),
    "molmo": Format(
        molmo.read,
        molmo.write,
        "points, 0 to 100",
        '<point x="52.3" y="61.0" alt="the dog">the dog</point>',
        points=True,
    ),
    "moondream": Format(
        listed.MOONDREAM.read,
        listed.MOONDREAM.write,
        "x_min y_min x_max y_max, 0 to 1",
        '{"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 0.3, "y_max": 0.4}]}',
        captions=False,
    ),
}


def format_of(name: str) -> Format:
    if name not in FORMATS:
        raise GroundlingError(f"unknown format {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def read(name: str, raw: str, size: tuple[int, int], seen: tuple[int, int] | None = None) -> Grounded:
    """The caption and places of one output, of an image of `size` (width, height).

    `seen` is the size at which the model saw it, which qwen2.5-vl needs. Whatever the text holds, this does not raise:
    what cannot be read is among the `problems`.
    """
    return format_of(name).read(raw, View(*size, seen))


def write(name: str, grounded: Grounded, size: tuple[int, int], seen: tuple[int, int] | None = None) -> Written:
    """The same in a format, and why some places could not be written."""
    return format_of(name).write(grounded, View(*size, seen))
