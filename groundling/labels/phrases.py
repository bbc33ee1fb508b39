"""The noun phrases of the captions of an image: which thing each names, whether one or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundling.labels.grounder import phrase_spans
from groundling.text import words
from groundling.text.annotate import annotate
from groundling.text.classes import head_noun
from groundling.text.wordnet import wordnet
from groundling.types import Caption, Span

NUMBERS = {"two": 2, "both": 2, "couple": 2, "pair": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
NUMBERS |= {"eight": 8, "nine": 9, "ten": 10} | {str(n): n for n in range(2, 11)}
GROUPS = {"group", "crowd", "bunch", "team", "flock", "herd", "row", "line", "pack", "number", "several", "many"}
SEVERAL = 6  # instances looked for where the number is not said
ALONE = 1


@dataclass(frozen=True)
class NounPhrase:
    """A phrase of a caption."""

    caption: int
    span: Span  # characters of the caption
    text: str
    tokens: tuple[str, ...]
    head: str  # lemma of the head noun; empty: a pronoun, or no noun at all
    synset: int | None  # of the head; None: WordNet does not know it
    count: int  # instances at most: 1, the number that is said, or SEVERAL
    definite: bool  # "the dog": may speak again of what was named before


def parsed(captions: Sequence[Sequence[str]]) -> list[list[NounPhrase]]:
    """The noun phrases of each image's captions. All are tagged together, which is faster than one by one."""
    read = [[words.caption(text) for text in texts] for texts in captions]
    tagged = iter(annotate([caption for some in read for caption in some]))
    return [[p for at, _ in enumerate(some) for p in noun_phrases(next(tagged), at)] for some in read]


def noun_phrases(caption: Caption, at: int) -> Iterator[NounPhrase]:
    """Those of one annotated caption, the `at`-th of its image."""
    for start, end in phrase_spans(caption):
        left, right = caption.spans[start][0], caption.spans[end - 1][1]
        tokens, head = caption.tokens[start:end], head_noun(caption, (start, end))
        lemma = caption.lemmas[head].lower() if head >= 0 else ""
        yield NounPhrase(
            at,
            (left, right),
            caption.text[left:right],
            tokens,
            lemma,
            wordnet().synset(lemma) if lemma else None,
            _count(tokens, caption.tags[head] if head >= 0 else ""),
            tokens[0] in ("the", "this", "that", "his", "her", "its", "their"),
        )


def _count(tokens: Sequence[str], tag: str) -> int:
    """How many things the phrase names at most."""
    said = next((NUMBERS[token] for token in tokens if token in NUMBERS), None)
    plural = tag in ("NNS", "NNPS") or "people" in tokens
    if said is not None and plural:
        return said
    return SEVERAL if plural or GROUPS & set(tokens[:-1]) else ALONE
