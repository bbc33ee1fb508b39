"""Verbs in the study: the box of a verb is the region that the captioner attended to most (Ma et al. 2020, 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from groundling.errors import DataError
from groundling.text.annotate import annotate
from groundling.types import Caption, GroundedCaption, Link, WordAttention


def link_verbs(captions: Sequence[GroundedCaption]) -> list[GroundedCaption]:
    """The same captions, their verbs linked too: each to the most attended region, in each frame of a clip."""
    if not any(caption.attention for caption in captions):
        raise DataError("--verbs needs captions with their attention: make them with `groundling caption --attention`")
    tagged = annotate([Caption(caption.text, caption.tokens, caption.spans) for caption in captions])
    return [
        replace(
            caption,
            links=tuple(sorted((*caption.links, *_verbs(caption, tags)), key=lambda link: (link.token, link.frame))),
        )
        for caption, tags in zip(captions, tagged, strict=True)
    ]


def _verbs(caption: GroundedCaption, tagged: Caption) -> list[Link]:
    linked = {link.token for link in caption.links}
    return [
        link
        for word in caption.attention
        if word.token not in linked and tagged.tags[word.token].startswith("VB")
        for link in _most_attended(caption, word)
    ]


def _most_attended(caption: GroundedCaption, word: WordAttention) -> list[Link]:
    """A link to the box of each frame with the largest weight; boxes come in the order of their weights."""
    links: dict[int, Link] = {}
    for box, weight, frame in zip(word.boxes, word.weights, word.frames or (0,) * len(word.boxes), strict=True):
        links.setdefault(frame, Link(word.token, caption.spans[word.token], box, min(1.0, weight), frame))
    return list(links.values())
