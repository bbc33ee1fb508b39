"""Nouns that are not in an image, by its captions: what foils are made of, and what evidence is fitted against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from groundling.text.wordnet import wordnet
from groundling.types import Caption

TRIES = 50  # nouns that are drawn before it is given up


@dataclass(frozen=True)
class Noun:
    """As a caption has it, its lemma, and what that most often means."""

    word: str
    lemma: str
    synset: int


class NounsOf:
    """The nouns of an image's captions."""

    def __init__(self, captions: Iterable[Caption]) -> None:
        net = wordnet()
        self._lemmas = {lemma for one in captions for lemma, noun in zip(one.lemmas, one.nouns, strict=True) if noun}
        self._synsets = {synset for lemma in self._lemmas if (synset := net.synset(lemma)) is not None}
        self._above = {kind for synset in self._synsets for kind in net.kinds(synset)}

    def __contains__(self, lemma: object) -> bool:
        return lemma in self._lemmas

    def lack(self, noun: Noun) -> bool:
        """None of them is this noun, nor a kind of it, nor what it is a kind of."""
        known = noun.lemma in self._lemmas or noun.synset in self._above
        return not (known or self._synsets & set(wordnet().kinds(noun.synset)))

    def other(self, pool: Sequence[Noun], draw: Random) -> Noun | None:
        """A noun of the pool that they lack; None where chance does not find one."""
        drawn = (draw.choice(pool) for _ in range(TRIES if pool else 0))
        return next((noun for noun in drawn if self.lack(noun)), None)


def related(nouns: Sequence[str]) -> NDArray[np.bool_]:
    """(K, K): is one noun the other, a kind of it, or what it is a kind of?"""
    net, found = wordnet(), np.eye(len(nouns), dtype=bool)
    places: dict[int, list[int]] = {}
    for i, noun in enumerate(nouns):
        if (synset := net.synset(noun)) is not None:
            places.setdefault(synset, []).append(i)
    for synset, some in places.items():
        for kind in net.kinds(synset):
            for other in places.get(kind, ()):
                found[some, other] = found[other, some] = True
    return found
