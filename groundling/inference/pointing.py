"""One caption as people read it: words, a Link for each groundable word and frame, WordAttention of each word."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from groundling.types import Box, GroundedCaption, Link, Span, WordAttention

ATTENDED = 5  # regions of a WordAttention


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
