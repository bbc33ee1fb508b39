"""Which phrases of an image name the same thing? Head nouns, WordNet and where the phrases are decide.

Two phrases may be one thing when both name one or both name several, and their heads are the same noun, or one is a
kind of the other ("a terrier", "a dog"), or both are people ("a man", "a worker"); the boxes that they found must
overlap, less where the noun is the same. Two phrases of one caption are two things ("a man and another man"), unless
the second is definite and has the same noun ("a dog ... the dog"). Chains grow from the surest pair on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from groundling.labels.phrases import ALONE, CaptionPhrase
from groundling.text.wordnet import wordnet

SAME_NOUN, KIND, PEOPLE = 3, 2, 1  # how close two heads are
LEAST = {SAME_NOUN: 0.2, KIND: 0.4, PEOPLE: 0.4}  # IoU from which such phrases are one thing

Array = NDArray[np.float64]


def chains(phrases: Sequence[CaptionPhrase], overlap: Array) -> list[list[int]]:
    """Indices of the phrases that name one thing, in order of first mention; `overlap` (P, P) is the IoU of boxes."""
    chain_of = list(range(len(phrases)))
    members = {i: [i] for i in chain_of}
    for _, _, i, j in sorted(_pairs(phrases, overlap), reverse=True):
        a, b = chain_of[i], chain_of[j]
        if a != b and not _apart(phrases, members[a], members[b]):
            for k in members.pop(b):
                chain_of[k] = a
                members[a].append(k)
    return sorted(sorted(some) for some in members.values())


def _pairs(phrases: Sequence[CaptionPhrase], overlap: Array) -> list[tuple[int, float, int, int]]:
    """Closeness, overlap and indices (i < j) of pairs that may be one thing."""
    found = []
    for j, second in enumerate(phrases):
        for i, first in enumerate(phrases[:j]):
            close = closeness(first, second)
            if close and overlap[i, j] >= LEAST[close] and (first.caption != second.caption or _again(first, second)):
                found.append((close, float(overlap[i, j]), i, j))
    return found


def closeness(first: CaptionPhrase, second: CaptionPhrase) -> int:
    """SAME_NOUN, KIND, PEOPLE, or 0 where the two cannot be one thing."""
    if not first.head or not second.head or (first.count == ALONE) != (second.count == ALONE):
        return 0
    if first.head == second.head:
        return SAME_NOUN
    if first.synset is None or second.synset is None:
        return 0
    above, other = _kinds(first.synset), _kinds(second.synset)
    if first.synset in other or second.synset in above:
        return KIND
    return PEOPLE if _person() & above and _person() & other else 0


def _apart(phrases: Sequence[CaptionPhrase], some: Sequence[int], others: Sequence[int]) -> bool:
    """May two chains not be joined? Two things of one caption stay two, and no pair may be of different kinds."""
    for i in some:
        for j in others:
            first, second = phrases[i], phrases[j]
            if not closeness(first, second):
                return True
            if first.caption == second.caption and not _again(first, second):
                return True
    return False


def _again(first: CaptionPhrase, second: CaptionPhrase) -> bool:
    """Does the later phrase of one caption refer to the same thing as the earlier?"""
    later = max(first, second, key=lambda phrase: phrase.phrase.span)
    return first.head == second.head and later.definite


@lru_cache(maxsize=50_000)
def _kinds(synset: int) -> frozenset[int]:
    return frozenset(wordnet().kinds(synset))


@lru_cache(maxsize=1)
def _person() -> frozenset[int]:
    """What people are, one or many."""
    found = (wordnet().synset(noun) for noun in ("person", "people"))
    return frozenset(synset for synset in found if synset is not None)
