"""Nouns of WordNet 3.0: what a noun most often means, other words for it, and what it is a kind of.

The table beside this file was made by `tools/build_wordnet.py`; its licence is in `wordnet-LICENSE.txt` and inside it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("wordnet-nouns.json.gz")
ENDINGS = (  # of plurals, and what they become; as WordNet's own search does it
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
    ("s", ""),
)


@dataclass(frozen=True)
class WordNet:
    """Synsets are numbers. A lemma of several words has underscores between them."""

    _lemmas: tuple[str, ...]  # of each synset, separated by spaces
    _hypernyms: tuple[tuple[int, ...], ...]  # of each synset
    _first: Mapping[str, int]  # lemma -> its most frequent synset
    _plurals: Mapping[str, str]  # the irregular ones

    def __len__(self) -> int:
        """How many synsets there are, in the order of their numbers in WordNet's files."""
        return len(self._lemmas)

    def base(self, word: str) -> str | None:
        """The lemma of which `word` is a form, itself first; None for a word that is no noun of WordNet."""
        word = word.lower().replace(" ", "_")
        if word in self._first:
            return word
        if (singular := self._plurals.get(word, "")) in self._first:
            return singular
        forms = (word.removesuffix(ending) + other for ending, other in ENDINGS if word.endswith(ending))
        return next((form for form in forms if form in self._first), None)

    def singular(self, word: str) -> str:
        """Of an irregular plural ("men", "teeth"), which may also be a lemma of its own; any other word as it is."""
        return self._plurals.get(word.lower(), word)

    def synset(self, word: str) -> int | None:
        """What the noun most often means."""
        lemma = self.base(word)
        return None if lemma is None else self._first[lemma]

    def lemmas(self, synset: int) -> tuple[str, ...]:
        return tuple(self._lemmas[synset].split(" "))

    def kinds(self, synset: int) -> Iterator[int]:
        """The synset, what it is a kind of, what that is a kind of, ...: nearest first, each once."""
        seen = {synset: None}  # a dict keeps the order
        for at in (queue := [synset]):
            yield at
            new = [above for above in self._hypernyms[at] if above not in seen]
            seen.update(dict.fromkeys(new))
            queue += new


@cache
def wordnet() -> WordNet:
    """The table, read when it is first asked for: 0.2 seconds."""
    table = json.loads(gzip.decompress(TABLE.read_bytes()))
    hypernyms = tuple(map(tuple, table["hypernyms"]))
    return WordNet(tuple(table["lemmas"]), hypernyms, table["first"], table["plurals"])
