"""The vocabulary of a model: its words and their ids. Saved as JSON inside every checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groundling.errors import DataError
from groundling.types import BOS, EOS, PAD, UNK, Caption

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """Satisfies `types.Vocab`: `words[i]` has id i, the first four being <pad>, <bos>, <eos>, <unk>.

    `nouns[i]` tells whether word i is a noun more often than not: for generated captions, which nobody tagged.
    Where no tags were known it is False for all words.
    """

    words: tuple[str, ...]
    nouns: tuple[bool, ...] = ()
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words[:4] != SPECIAL:
            raise ValueError(f"a vocabulary begins with {' '.join(SPECIAL)}, not {' '.join(self.words[:4])}")
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) != len(self.words):
            raise ValueError(f"a vocabulary holds each word once; {len(self.words) - len(ids)} are repeated")
        object.__setattr__(self, "_ids", ids)
        object.__setattr__(self, "nouns", self.nouns or (False,) * len(self.words))
        if len(self.nouns) != len(self.words):
            raise ValueError(f"a vocabulary of {len(self.words)} words names which are nouns for {len(self.nouns)}")

    @staticmethod
    def build(sentences: Iterable[Sequence[str]], min_count: int = 5) -> Vocabulary:
        """Words that occur at least `min_count` times, the most frequent first, ties in alphabetical order."""
        counts = Counter(word for sentence in sentences for word in sentence)
        for word in SPECIAL:
            counts.pop(word, None)
        kept = [word for word, n in counts.items() if n >= min_count]
        return Vocabulary(SPECIAL + tuple(sorted(kept, key=lambda word: (-counts[word], word))))

    @staticmethod
    def of(captions: Iterable[Caption], min_count: int = 5) -> Vocabulary:
        """The words of these captions as `build` chooses them; nouns are those so tagged in most of their places."""
        captions = list(captions)
        balance: Counter[str] = Counter()  # how often a noun, less how often something else
        for caption in captions:
            if caption.tags:
                for word, noun in zip(caption.tokens, caption.nouns, strict=True):
                    balance[word] += 1 if noun else -1
        vocab = Vocabulary.build((caption.tokens for caption in captions), min_count)
        return replace(vocab, nouns=tuple(word not in SPECIAL and balance[word] > 0 for word in vocab.words))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Ids of the words, UNK for the unknown; no BOS, no EOS."""
        return [self._ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Words up to the first EOS; PAD and BOS are dropped."""
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.words[i])
        return words

    def to_json(self) -> dict[str, Any]:
        return {"words": list(self.words), "nouns": [i for i, noun in enumerate(self.nouns) if noun]}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Vocabulary:
        """The inverse of `to_json`; raises DataError on anything else. Older files do not have the nouns."""
        words, nouns = row.get("words"), row.get("nouns", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError('not a vocabulary: expected {"words": [...]} with a list of strings')
        if not isinstance(nouns, list) or not all(type(i) is int and 0 <= i < len(words) for i in nouns):
            raise DataError('not a vocabulary: "nouns" must be a list of places in "words"')
        chosen = set(nouns)
        try:
            return Vocabulary(tuple(words), tuple(i in chosen for i in range(len(words))))
        except ValueError as error:
            raise DataError(f"not a vocabulary: {error}") from error


def last_word(noun: str) -> str:
    """Of a compound: a baseball cap is a cap."""
    return noun.rpartition(" ")[2]
