"""Grounded output as captions of this project, which `groundling report` shows and `groundling score` scores."""

from __future__ import annotations

from groundling.formats.grounded import Grounded
from groundling.text.words import caption
from groundling.types import GroundedCaption, Link


def as_caption(image: str, grounded: Grounded, size: tuple[int, int]) -> GroundedCaption:
    """Each box is linked to the last word of its phrase: the head of most English noun phrases. Points are not kept."""
    words = caption(grounded.text)
    links = []
    for place in grounded.places:
        inside = [i for i, (start, end) in enumerate(words.spans) if place.span[0] <= start and end <= place.span[1]]
        if inside:
            links += [Link(inside[-1], words.spans[inside[-1]], box, 1.0) for box in place.boxes]
    return GroundedCaption(image, grounded.text, words.tokens, words.spans, tuple(links), size=size)
