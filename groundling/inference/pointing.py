"""From the regions of words to a caption as people read it: words, a Link for each groundable word and frame,
WordAttention of each word.

Where several things are: "two dogs" are in the box around both, not in that of one. The places of a plural noun are the
likely regions that lie apart: each has at least SHARE of the probability of the likeliest one, and overlaps little with
those before it. A region r finds the things with the probability

    (1 − G) · P(r finds one of them) + G · P(they are in the frame of r) · IoU(r, box around the places)

G was chosen on 600 training photos of Flickr8k, by boxes that no weights learned from: a greater one finds more of the
boxes around all, and fewer of the boxes of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.inference.bodies import PARTS
from groundling.text.morphology import lemma
from groundling.types import Box, GroundedCaption, Link, Span, WordAttention

Array = NDArray[Any]

ATTENDED = 5  # regions of a WordAttention
GROUP = 0.25  # G
SHARE = 0.29  # of the greatest probability; a difference of 0.1 in the similarity of phrases
APART = 0.4  # IoU from which two regions are one place

COLLECTIVE = {"people", "couple", "group", "crowd", "team", "pair", "family", "others", "cattle", "police"}
PAIRS = {"glasses", "sunglasses", "goggles", "scissors", "binoculars", "headphones", "pliers", "tongs"}
ONE_THING = PAIRS | PARTS.keys()  # parts are looked for on one person


@dataclass(frozen=True)
class Pointed:
    """Where the words of one caption are, as lists: [token][frame], and the most attended regions, [token][rank]."""

    boxes: Sequence[Sequence[Sequence[float]]]  # NaN where a word has no box in a frame
    scores: Sequence[Sequence[float]]
    top: Sequence[Sequence[int]]  # regions, heaviest first
    weights: Sequence[Sequence[float]]  # and their attention
    region_boxes: Sequence[Sequence[float]]
    region_frames: Sequence[int]


def captioned(
    words: Sequence[str], places: Pointed, is_groundable: Callable[[str], bool], logp: float, **about: Any
) -> GroundedCaption:
    """Words joined by spaces. A link's score is the attention on the regions whose union is its box."""
    tokens = tuple(words)
    spans = spans_of(tokens)
    links = [
        Link(t, spans[t], _box(box), min(1.0, score), frame)
        for t, word in enumerate(tokens)
        if is_groundable(word)
        for frame, (box, score) in enumerate(zip(places.boxes[t], places.scores[t], strict=True))
        if not math.isnan(box[0])
    ]
    attention = tuple(_attended(t, places) for t in range(len(tokens)))
    return GroundedCaption(
        text=" ".join(tokens), tokens=tokens, spans=spans, links=tuple(links), attention=attention, logp=logp, **about
    )


def _attended(token: int, places: Pointed) -> WordAttention:
    seen = [(r, w) for r, w in zip(places.top[token], places.weights[token], strict=True) if w > 0]
    return WordAttention(
        token,
        tuple(_box(places.region_boxes[r]) for r, _ in seen),
        tuple(w for _, w in seen),
        tuple(places.region_frames[r] for r, _ in seen),
    )


def spans_of(tokens: Sequence[str]) -> tuple[Span, ...]:
    """Characters of each token in the tokens joined by spaces."""
    spans, start = [], 0
    for token in tokens:
        spans.append((start, start + len(token)))
        start += len(token) + 1
    return tuple(spans)


def _box(values: Sequence[float]) -> Box:
    left, top, right, bottom = values
    return left, top, right, bottom


# ---------------------------------------------------------------- several things


def means_several(noun: str) -> bool:
    """Whether a noun means more than one thing, as far as its form tells."""
    last = ["", *noun.lower().split()][-1]
    if last in COLLECTIVE or last in ONE_THING or "'" in last:
        return last in COLLECTIVE
    return last.endswith(("s", "men", "children", "feet", "teeth", "geese", "mice")) and lemma(last, "NNS") != last


def with_groups(found: Array, p: Array, boxes: Array, frame: Array, several: Sequence[bool]) -> Array:
    """(P, R): `found`, how likely each region finds what each phrase means, where `several` of the P phrases mean more
    than one thing. p: (P, R), how likely it is in each region. boxes: (R, 4). frame: (R,), of a clip: each has its own
    places."""
    found = found.copy()
    for i in np.flatnonzero(np.asarray(several, bool)):
        for number in np.unique(frame):
            here = np.flatnonzero(frame == number)
            places = _places(boxes[here], p[i, here])
            if len(places) > 1:
                around = np.concatenate([places[:, :2].min(0), places[:, 2:].max(0)])[None]
                shared = iou_of_arrays(boxes[here], around)[:, 0]
                found[i, here] = (1 - GROUP) * found[i, here] + GROUP * p[i, here].sum() * shared
    return found


def _places(boxes: Array, p: Array) -> Array:
    """(R, 4) -> (N, 4): the likely regions that lie apart."""
    kept: list[int] = []
    for r in np.argsort(-p, kind="stable"):
        if p[r] < SHARE * p.max():
            break
        if not kept or iou_of_arrays(boxes[[r]], boxes[kept]).max() < APART:
            kept.append(int(r))
    return boxes[kept]
