"""Captions with boxes, made at random, and how far each format may move them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from groundling.formats import FORMATS, Grounded, Place
from groundling.types import Box

WORDS = ("dog", "man", "ball", "tree", "car", "horse", "hat", "river")
JOINS = ("and", "with", "near", "behind", "is")
GRIDS = {  # name -> the step of its numbers, as a part of the width (and height) of the image
    "kosmos-2": 1 / 32,
    "florence-2": 1 / 1000,
    "qwen-vl": 1 / 1000,
    "qwen2-vl": 1 / 1000,
    "qwen3-vl": 1 / 1000,
    "ferret": 1 / 1000,
    "cogvlm": 1 / 1000,
    "internvl": 1 / 1000,
    "paligemma": 1 / 1024,
    "gemini": 1 / 1000,
    "moondream": 1 / 10_000,
}
BOXES = [name for name, one in FORMATS.items() if name != "plain" and not one.points]


def step(name: str, size: tuple[int, int], seen: tuple[int, int]) -> tuple[float, float]:
    """The grid's size in pixels, across and down."""
    if name == "qwen2.5-vl":
        return size[0] / seen[0], size[1] / seen[1]
    if name == "shikra":
        return max(size) / 1000, max(size) / 1000
    return size[0] * GRIDS[name], size[1] * GRIDS[name]


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Grounded, tuple[int, int]]:
    """A caption of phrases with one to three boxes each, in an image of any shape."""
    size = draw(st.integers(40, 3000)), draw(st.integers(40, 3000))
    part = st.floats(0, 1, allow_nan=False)
    text, places = "", []
    for i in range(draw(st.integers(1, 4))):
        text += f" {draw(st.sampled_from(JOINS))} " if i else ""
        phrase = f"the {draw(st.sampled_from(WORDS))}"
        corners = draw(st.lists(st.tuples(part, part, part, part), min_size=1, max_size=3))
        boxes = tuple(_box(four, size) for four in corners)
        places.append(Place((len(text), len(text) + len(phrase)), boxes))
        text += phrase
    return Grounded(text, tuple(places)), size


def _box(four: tuple[float, float, float, float], size: tuple[int, int]) -> Box:
    (x1, x2), (y1, y2) = sorted(four[::2]), sorted(four[1::2])
    return x1 * size[0], y1 * size[1], x2 * size[0], y2 * size[1]


def flat(grounded: Grounded) -> list[tuple[str, Box]]:
    return [(grounded.phrase(place), box) for place in grounded.places for box in place.boxes]


# ---------------------------------------------------------------- broken outputs


def broken(name: str, draw: random.Random) -> str:
    """An output of a format that somebody broke: cut in the middle of a place, or with a number too few or too many."""
    good = _output(name, draw)
    way = draw.choice((_cut, _fewer, _more, _letters))
    return way(good, name, draw)


def _output(name: str, draw: random.Random) -> str:
    from groundling import formats

    phrase = f"a {draw.choice(WORDS)}"
    x, y = draw.uniform(10, 300), draw.uniform(10, 200)
    place = Place((0, len(phrase)), ((x, y, x + draw.uniform(20, 300), y + draw.uniform(20, 250)),), ((x, y),))
    return formats.write(name, Grounded(f"{phrase} here", (place,)), (640, 480), (644, 476)).text


def _digits(text: str) -> list[tuple[int, int]]:
    """The numbers of an output that say where: start and end of each."""
    import re

    found = [match.span() for match in re.finditer(r"(?<![a-z\d])\d+(?:\.\d+)?(?=\D)|(?<=[a-z_])\d{2,4}(?=>)", text)]
    keys = [text[max(0, start - 6) : start] for start, _ in found]
    return [span for span, key in zip(found, keys, strict=True) if not key.endswith(("bbox_", "box_"))]


def _cut(text: str, name: str, draw: random.Random) -> str:
    """Stopped within the numbers."""
    return text[: draw.choice(_digits(text))[1]]


def _fewer(text: str, name: str, draw: random.Random) -> str:
    start, end = draw.choice(_digits(text))
    return text[:start] + text[end:]


def _more(text: str, name: str, draw: random.Random) -> str:
    start, end = draw.choice(_digits(text))
    if name in ("kosmos-2", "florence-2", "paligemma"):
        token = {"kosmos-2": "<patch_index_0001>", "florence-2": "<loc_5>", "paligemma": "<loc0005>"}[name]
        at = text.index("<loc" if name != "kosmos-2" else "<patch")
        return text[:at] + token + text[at:]
    if name in ("molmo", "moondream"):
        return _letters(text, name, draw)
    return f"{text[:end]}, 7{text[end:]}"


def _letters(text: str, name: str, draw: random.Random) -> str:
    start, end = draw.choice(_digits(text))
    return f"{text[:start]}o{draw.choice('xyz')}{text[end:]}"
