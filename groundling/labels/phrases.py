"""The noun phrases of the captions of an image: which thing each names, whether one or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundling.text.noun_phrases import NounPhrase, noun_phrases
from groundling.text.wordnet import wordnet

NUMBERS = {"two": 2, "both": 2, "couple": 2, "pair": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
NUMBERS |= {"eight": 8, "nine": 9, "ten": 10} | {str(n): n for n in range(2, 11)}
GROUPS = {"group", "crowd", "bunch", "team", "flock", "herd", "row", "line", "pack", "number", "several", "many"}
DEFINITE = ("the", "this", "that", "his", "her", "its", "their")
SEVERAL = 6  # instances looked for where their number is not given
ALONE = 1


@dataclass(frozen=True)
class CaptionPhrase:
    """A noun phrase of one of the captions of an image."""

    caption: int  # index of the caption
    phrase: NounPhrase
    synset: int | None  # of the head; None: WordNet does not know it
    count: int  # instances at most: 1, the number that is given, or SEVERAL
    definite: bool  # "the dog": may refer to what was named before

    @property
    def head(self) -> str:
        """The lemma of its head noun; empty: a pronoun."""
        return self.phrase.lemma

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.phrase.tokens


def most_telling(phrases: Sequence[CaptionPhrase]) -> CaptionPhrase:
    """The phrase that a thing is called by: one with a noun, the longest."""
    return max(phrases, key=lambda one: (bool(one.head), len(one.tokens)))


def caption_phrases(captions: Sequence[Sequence[str]]) -> list[list[CaptionPhrase]]:
    """The noun phrases of each image's captions. All are tagged together, which is faster than one by one."""
    tagged = iter(noun_phrases([text for texts in captions for text in texts]))
    return [[_of_caption(phrase, at) for at, _ in enumerate(texts) for phrase in next(tagged)] for texts in captions]


def _of_caption(phrase: NounPhrase, caption: int) -> CaptionPhrase:
    synset = wordnet().synset(phrase.lemma) if phrase.lemma else None
    return CaptionPhrase(caption, phrase, synset, _count(phrase), phrase.tokens[0] in DEFINITE)


def _count(phrase: NounPhrase) -> int:
    """How many things the phrase names at most."""
    plural = phrase.plural or "people" in phrase.tokens
    number = next((NUMBERS[token] for token in phrase.tokens if token in NUMBERS), None)
    if number is not None and plural:
        return number
    return SEVERAL if plural or GROUPS & set(phrase.tokens[:-1]) else ALONE
