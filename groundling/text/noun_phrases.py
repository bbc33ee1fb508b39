"""The noun phrases of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from groundling.text import words
from groundling.text.annotate import annotate
from groundling.types import Caption, Span

JOINER = "of"  # makes one phrase of two: "a group of people"


def noun_phrases(sentences: Sequence[str]) -> list[list[tuple[str, Span, tuple[str, ...]]]]:
    """Text, characters and words of the noun phrases of each sentence; two with "of" between them are one."""
    captions = annotate([words.caption(sentence) for sentence in sentences])
    return [_phrases(sentence, caption) for sentence, caption in zip(sentences, captions, strict=True)]


def _phrases(sentence: str, caption: Caption) -> list[tuple[str, Span, tuple[str, ...]]]:
    return [
        (sentence[first:last], (first, last), caption.tokens[start:end])
        for start, end in joined(caption)
        for first, last in [(caption.spans[start][0], caption.spans[end - 1][1])]
    ]


def joined(caption: Caption) -> list[Span]:
    """The noun phrases of an annotated caption, as spans of tokens."""
    out: list[Span] = []
    for start, end in caption.chunks:
        if out and out[-1][1] == start - 1 and caption.tokens[start - 1] == JOINER:
            out[-1] = out[-1][0], end
        else:
            out.append((start, end))
    return out
