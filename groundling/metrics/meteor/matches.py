"""Which words and phrases of a caption and a reference say the same, by METEOR's four matchers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from groundling.metrics.meteor.lexicon import EXACT, PARAPHRASE, Lexicon
from groundling.metrics.meteor.paraphrases import Span, Table, find


class Match(NamedTuple):
    """Words [start, start + length) of the reference say what words [said, said + words) of the caption say."""

    start: int
    length: int
    offset: int
    words: int
    kind: int


@dataclass(frozen=True)
class Sentence:
    words: list[str]
    function: list[bool]  # is it a function word?
    positions: dict[str, list[int]]  # of each word
    matched: dict[str, list[tuple[int, int]]]  # word of a reference -> (kind, position) of what it matches here
    spans: list[Span]  # phrases that have paraphrases in the corpus
    phrases: dict[int, list[int]]  # the same by number: where each begins


class Matcher:
    """What can match what among the sentences of a corpus."""

    def __init__(self, sentences: Sequence[list[str]], lexicon: Lexicon, table: Table) -> None:
        self.related = lexicon.relate({word for words in sentences for word in words})
        spans, self.paraphrases = find(sentences, table)
        self.rivals = {phrase: frozenset(others) for phrase, others in self.paraphrases.items()}
        self.lengths = {phrase: length for of_sentence in spans for _, length, phrase in of_sentence}
        self.sentences = [
            Sentence(
                words,
                [word in lexicon.function_words for word in words],
                _by_key(words, range(len(words))),
                {},
                of_sentence,
                _by_key([phrase for _, _, phrase in of_sentence], [start for start, _, _ in of_sentence]),
            )
            for words, of_sentence in zip(sentences, spans, strict=True)
        ]

    def count(self, caption: Sentence, reference: Sentence) -> int:
        """How many matches of single words there are, before any is made."""
        return sum(len(at) * len(self._matched(word, caption)) for word, at in reference.positions.items())

    def _matched(self, word: str, caption: Sentence) -> list[tuple[int, int]]:
        """What a word of a reference matches, (kind, position), kind by kind: found once for all references."""
        if word not in caption.matched:
            related = self.related[word]
            caption.matched[word] = sorted(
                (kind, i)
                for other in related.keys() & caption.positions.keys()
                for kind in related[other]
                for i in caption.positions[other]
            )
        return caption.matched[word]

    def match(self, caption: Sentence, reference: Sentence) -> list[list[Match]]:
        """The matches that begin at each word of the reference, kind by kind; of equal sentences the exact ones."""
        equal = caption.words == reference.words
        matches = [
            [Match(j, 1, i, 1, kind) for kind, i in self._matched(word, caption) if not equal or kind == EXACT]
            for j, word in enumerate(reference.words)
        ]
        if not equal:
            for start, length, offset, words in self._paraphrases(reference, caption):
                matches[start].append(Match(start, length, offset, words, PARAPHRASE))
            for offset, words, start, length in self._paraphrases(caption, reference):
                matches[start].append(Match(start, length, offset, words, PARAPHRASE))
        return matches

    def _paraphrases(self, one: Sentence, other: Sentence) -> Iterator[tuple[int, int, int, int]]:
        """(start, length) of a phrase of the one sentence and of a paraphrase of it in the other, in METEOR's order."""
        there = other.phrases.keys()
        for start, length, phrase in one.spans:
            if phrase in self.rivals and not self.rivals[phrase].isdisjoint(there):
                for paraphrase in self.paraphrases[phrase]:
                    for at in other.phrases.get(paraphrase, ()):
                        yield start, length, at, self.lengths[paraphrase]


Key = TypeVar("Key")


def _by_key(keys: Iterable[Key], values: Iterable[int]) -> dict[Key, list[int]]:
    by_key: dict[Key, list[int]] = {}
    for key, value in zip(keys, values, strict=True):
        if key in by_key:
            by_key[key].append(value)
        else:
            by_key[key] = [value]
    return by_key
