"""Verbs in the study: their places are the regions that the captioner attended to most (Ma et al. 2020, 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from groundling.errors import DataError
from groundling.text.annotate import annotate
from groundling.types import Caption, GroundedCaption, Link, Look


def link_verbs(captions: Sequence[GroundedCaption]) -> list[GroundedCaption]:
    """The same captions, their verbs linked too: each to the most attended region, in each frame of a clip."""
    if not any(said.looks for said in captions):
        raise DataError("these captions do not tell where verbs look: make them with `groundling caption --attention`")
    tagged = annotate([Caption(said.text, said.tokens, said.spans) for said in captions])
    return [
        replace(said, links=tuple(sorted((*said.links, *_verbs(said, one)), key=lambda link: (link.token, link.frame))))
        for said, one in zip(captions, tagged, strict=True)
    ]


def _verbs(said: GroundedCaption, tagged: Caption) -> list[Link]:
    linked = {link.token for link in said.links}
    return [
        link
        for look in said.looks
        if look.token not in linked and tagged.tags[look.token].startswith("VB")
        for link in _heaviest(said, look)
    ]


def _heaviest(said: GroundedCaption, look: Look) -> list[Link]:
    """A link to the heaviest box of each frame; boxes come heaviest first."""
    found: dict[int, Link] = {}
    for box, weight, frame in zip(look.boxes, look.weights, look.frames or (0,) * len(look.boxes), strict=True):
        found.setdefault(frame, Link(look.token, said.spans[look.token], box, min(1.0, weight), frame))
    return list(found.values())
