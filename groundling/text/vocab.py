"""The words that a model can say, and their ids. Saved as JSON inside every checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundling.errors import DataError
from groundling.types import BOS, EOS, PAD, UNK

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """Satisfies `types.Vocab`: `words[i]` has id i, the first four being <pad>, <bos>, <eos>, <unk>."""

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words[:4] != SPECIAL:
            raise ValueError(f"a vocabulary begins with {' '.join(SPECIAL)}, not {' '.join(self.words[:4])}")
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) != len(self.words):
            raise ValueError(f"a vocabulary holds each word once; {len(self.words) - len(ids)} are repeated")
        object.__setattr__(self, "_ids", ids)

    @staticmethod
    def build(sentences: Iterable[Sequence[str]], min_count: int = 5) -> Vocabulary:
        """Words that occur at least `min_count` times, the most frequent first, ties in alphabetical order."""
        counts = Counter(word for sentence in sentences for word in sentence)
        for word in SPECIAL:
            counts.pop(word, None)
        kept = [word for word, n in counts.items() if n >= min_count]
        return Vocabulary(SPECIAL + tuple(sorted(kept, key=lambda word: (-counts[word], word))))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Ids of the words, UNK for the unknown; no BOS, no EOS."""
        return [self._ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Words up to the first EOS; PAD and BOS are dropped."""
        said = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                said.append(self.words[i])
        return said

    def to_json(self) -> dict[str, Any]:
        return {"words": list(self.words)}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Vocabulary:
        """The inverse of `to_json`; raises DataError on anything else."""
        words = row.get("words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError('not a vocabulary: expected {"words": [...]} with a list of strings')
        try:
            return Vocabulary(tuple(words))
        except ValueError as error:
            raise DataError(f"not a vocabulary: {error}") from error
