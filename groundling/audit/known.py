"""Substitutes for words that the grounder never learned: a synonym or a broader kind.

First another form of the word (its lemma), then a synonym, then a broader kind, both by WordNet: a spaniel is looked
for as a dog. What is broader than most things ("an object") is no answer: then nobody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from groundling.text.classes import NO_THING
from groundling.text.wordnet import WordNet, wordnet
from groundling.types import Vocab

KINDS = 6  # broader kinds that are tried, nearest first
SAME, SYNONYM, BROADER = "", "synonym", "broader kind"
RARE = 0.004  # share of photos that a word is in: of a rarer one nobody can tell that it is not there
TOO_BROAD = frozenset(
    ("abstraction", "act", "action", "activity", "area", "artifact", "attribute", "being", "body", "content", "device")
    + ("entity", "event", "group", "instrumentality", "item", "location", "matter", "measure", "object", "organism")
    + ("part", "piece", "place", "point", "position", "quality", "quantity", "relation", "set", "shape", "state")
    + ("structure", "stuff", "substance", "thing", "unit", "way", "whole", "work")
)


@dataclass(frozen=True)
class Found:
    """The word to look for, and how it is related to the word of the caption."""

    word: str
    how: str  # SAME, SYNONYM, BROADER


class Known:
    """The words that a grounder learned: those that its region source knows; where that knows none, the most frequent
    ones of its vocabulary."""

    def __init__(self, vocab: Vocab, learned: int, words: Mapping[str, float] | None = None) -> None:
        """`words`: those of the region source, each with the share of photos that it is in."""
        self._words = words or {}
        self._rank = {word: i for i, word in enumerate(vocab.words)}
        self._learned = learned + 4  # the first four are no words
        self._nouns: Sequence[bool] = vocab.nouns
        self.find = cache(self._find)

    def learned(self, word: str) -> bool:
        if self._words:
            return word in self._words
        return self._rank.get(word, self._learned) < self._learned

    def rare(self, found: Found) -> bool:
        """Was the word that is looked for seen too seldom to say that it is not there?"""
        return self._words.get(found.word, 1.0) < RARE

    def rank(self, word: str) -> int | None:
        """1 for the most frequent word; None for one that the vocabulary lacks."""
        place = self._rank.get(word)
        return None if place is None else place - 3

    def _find(self, noun: str, lemma: str) -> Found | None:
        """What to look for in place of a noun; None where nobody can tell."""
        if lemma in NO_THING or noun in NO_THING:
            return None
        if form := next((word for word in (noun, lemma) if self.learned(word)), None):
            return Found(form, SAME)
        net = wordnet()
        synset = net.synset(lemma)
        if synset is None:
            return None
        if word := self._best(net, synset):
            return Found(word, SYNONYM)
        for i, kind in enumerate(net.kinds(synset)):
            if i > KINDS or set(net.lemmas(kind)) & TOO_BROAD:
                return None
            if word := self._best(net, kind):
                return Found(word, BROADER)
        return None

    def _best(self, net: WordNet, synset: int) -> str | None:
        """The most frequent learned noun of a synset whose own first meaning it is."""
        words = [
            word
            for word in net.lemmas(synset)
            if self.learned(word) and self._is_noun(word) and net.synset(word) == synset
        ]
        return min(words, key=lambda word: self._rank[word], default=None)

    def _is_noun(self, word: str) -> bool:
        return word in self._rank and bool(self._nouns[self._rank[word]])
