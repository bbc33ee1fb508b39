"""Which words and phrases of captions and references say the same, by METEOR's four matchers.

All pairs of a caption and a reference are looked at together, in arrays. What a caption could be matched with is listed
once for all its references: a row for every word that one of its words matches, and for every phrase that one of its
phrases has in common with the paraphrase table. The words and phrases of the references are then looked up there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.meteor.lexicon import EXACT, PARAPHRASE, Lexicon
from groundling.metrics.meteor.paraphrases import Table, find

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Matches(NamedTuple):
    """Of many pairs, by pair and by the word of the reference where they begin, there in METEOR's order.

    Words [start, start + length) of the reference say what words [offset, offset + words) of the caption say.
    """

    pair: Ints
    start: Ints
    length: Ints
    offset: Ints
    words: Ints
    kind: Ints

    def of(self, chosen: Flags | Ints) -> Matches:
        return Matches(*(column[chosen] for column in self))


class Corpus:
    """Sentences as the numbers of their words, laid end to end."""

    def __init__(self, sentences: Sequence[list[str]], lexicon: Lexicon) -> None:
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self.words: Ints = np.array([numbers[word] for words in sentences for word in words], np.int64)
        self.vocabulary = list(numbers)
        self.lengths: Ints = np.array([len(words) for words in sentences], np.int64)
        self.firsts: Ints = np.cumsum(self.lengths) - self.lengths
        self.sentence = np.repeat(np.arange(len(sentences)), self.lengths)
        self.place = np.arange(len(self.words)) - self.firsts[self.sentence]  # of each word in its sentence
        known = np.array([word in lexicon.function_words for word in self.vocabulary], bool)
        self.function: Flags = known[self.words]


class _Index:
    """Rows by a key, in their order; those of many keys are found at once."""

    def __init__(self, keys: Ints, *columns: Ints) -> None:
        order = np.argsort(keys, kind="stable")
        self.keys, self.columns = keys[order], [column[order] for column in columns]

    def count(self, keys: Ints) -> tuple[Ints, Ints]:
        """Where the rows of each key begin, and how many there are."""
        first = np.searchsorted(self.keys, keys)
        return first, np.searchsorted(self.keys, keys, "right") - first

    def find(self, keys: Ints) -> tuple[Ints, list[Ints]]:
        """The rows of all keys one after the other: the place of each one's key among the keys, and its columns."""
        first, counts = self.count(keys)
        asked, rows = expanded(first, counts)
        return asked, [column[rows] for column in self.columns]


def expanded(first: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Ranges [first, first + count), one after the other: which one each number belongs to, and the numbers."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + first[owner]


class Matcher:
    """What can match what among sentences, of which the first `captions` are captions."""

    def __init__(self, corpus: Corpus, captions: int, lexicon: Lexicon, table: Table) -> None:
        self.corpus, self.size = corpus, len(corpus.vocabulary)
        relation = _Index(*lexicon.relate(corpus.vocabulary))
        mine = slice(0, int(corpus.lengths[:captions].sum()))
        at, (other, kind) = relation.find(corpus.words[mine])
        order = np.argsort(kind, kind="stable")  # words match kind by kind
        at, other, kind = at[order], other[order], kind[order]
        self.of_words = _Index(corpus.sentence[at] * self.size + other, corpus.place[at], kind)

        self.spans, owner, paraphrase = find(corpus.words, corpus.vocabulary, corpus.lengths, table)
        self.phrases = 1 + max(self.spans.phrase.max(initial=0), owner.max(initial=0), paraphrase.max(initial=0))
        self.sentence, self.start = corpus.sentence[self.spans.at], corpus.place[self.spans.at]
        of_captions = slice(0, int(np.searchsorted(self.sentence, captions)))
        rank = np.arange(len(owner))  # in the order of the table
        self.paraphrased = self._of_captions(of_captions, _Index(paraphrase, owner, rank))
        self.paraphrases = self._of_captions(of_captions, _Index(owner, paraphrase, rank))

    def _of_captions(self, tokens: slice, others: _Index) -> _Index:
        """Phrases of the captions by what they are exchanged for: offset, words, rank in the table."""
        at, (other, rank) = others.find(self.spans.phrase[tokens])
        keys = self.sentence[tokens][at] * self.phrases + other
        return _Index(keys, self.start[tokens][at], self.spans.length[tokens][at], rank)

    def count(self, captions: Ints, references: Ints) -> Ints:
        """How many matches of single words each pair has, before any is made."""
        pair, keys, _ = self._words(captions, references)
        return np.bincount(pair, self.of_words.count(keys)[1], len(captions)).astype(np.int64)

    def match(self, captions: Ints, references: Ints, equal: Flags) -> Matches:
        """All matches of the pairs; of those with equal sentences the exact ones."""
        stages = [self._single(captions, references, equal)]
        stages += self._phrases(captions, references, equal)
        pair, start, length, offset, words, kind = (np.concatenate(column) for column in zip(*stages, strict=True))
        order = np.argsort(pair * (1 + start.max(initial=0)) + start, kind="stable")
        return Matches(pair, start, length, offset, words, kind).of(order)

    def _words(self, captions: Ints, references: Ints) -> tuple[Ints, Ints, Ints]:
        """The words of all references: pair, key and place."""
        pair, at = expanded(self.corpus.firsts[references], self.corpus.lengths[references])
        return pair, captions[pair] * self.size + self.corpus.words[at], self.corpus.place[at]

    def _single(self, captions: Ints, references: Ints, equal: Flags) -> Matches:
        pair, keys, place = self._words(captions, references)
        asked, (offset, kind) = self.of_words.find(keys)
        one = np.ones(len(asked), np.int64)
        found = Matches(pair[asked], place[asked], one, offset, one, kind)
        return found.of((kind == EXACT) | ~equal[found.pair])

    def _phrases(self, captions: Ints, references: Ints, equal: Flags) -> list[Matches]:
        """Phrases of the references whose paraphrases the captions have, then those of the captions."""
        first = np.searchsorted(self.sentence, references)
        counts = np.searchsorted(self.sentence, references, "right") - first
        pair, at = expanded(first, np.where(equal, 0, counts))
        keys = captions[pair] * self.phrases + self.spans.phrase[at]
        stages = []
        for index, by_caption in ((self.paraphrased, False), (self.paraphrases, True)):
            asked, (offset, words, rank) = index.find(keys)
            start, length = self.start[at[asked]], self.spans.length[at[asked]]
            order = np.lexsort((rank, words, offset) if by_caption else (offset, rank, length))
            kind = np.full(len(asked), PARAPHRASE)
            stages.append(Matches(pair[asked], start, length, offset, words, kind).of(order))
        return stages
