"""ROUGE-L of captions, with the constants of the published scorer.

Lin, ACL workshop 2004. With LCS the length of the longest common subsequence of words,

    P = max_r LCS / words of the hypothesis,   R = max_r LCS / words of r,   F = (1 + b^2) P R / (R + b^2 P),   b = 1.2

the two maxima over the references being taken apart from each other. The score of a corpus is the mean. A text without
words counts as one empty word, as in the published scorer, so two empty texts score 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.ngrams import SHIFT, Corpus, Ints, Numbers, Words, run_ends

BETA2 = 1.2**2
BITS = 64
MOST = 4 * 10**8  # words of a caption times words of a reference: some seconds, as 10^8 take 1.1

T = TypeVar("T")


def rouge_l(hypotheses: Iterable[Words], references: Iterable[Sequence[Words]]) -> NDArray[np.float64]:
    """ROUGE-L of each item, 0 to 1; words already tokenised."""
    filled = (words or [""] for words in hypotheses)
    return score(Corpus.of(filled, ([ref or [""] for ref in refs] for refs in references), Numbers()))


def score(corpus: Corpus) -> NDArray[np.float64]:
    """ROUGE-L of each image."""
    lengths, refs = np.maximum(corpus.sentences.lengths, 1), corpus.per_image
    own = np.repeat(corpus.first, refs + 1)  # of each sentence: the hypothesis of its image
    common = np.where(corpus.sentences.lengths + corpus.sentences.lengths[own] > 0, _common(corpus, own), 1)
    common[corpus.first] = 0
    precision = np.maximum.reduceat(common, corpus.first) / lengths[corpus.first] if len(refs) else np.zeros(0)
    recall = np.maximum.reduceat(common / lengths, corpus.first) if len(refs) else np.zeros(0)
    below = recall + BETA2 * precision
    return np.asarray((1 + BETA2) * precision * recall / np.where(below > 0, below, 1))


def _common(corpus: Corpus, own: Ints) -> Ints:
    """Words of each sentence's longest common subsequence with the hypothesis of its image.

    All sentences at once, one word of each after another; what is longer than a machine word is done by itself.
    """
    words, lengths = corpus.sentences.words, corpus.sentences.lengths
    if ((lengths * lengths[own])[own != np.arange(len(own))] > MOST).any():
        raise DataError(
            f"a caption of {lengths.max():,} words: ROUGE-L would compare it with its reference for a long time; "
            "score without ROUGE-L, or shorten the caption"
        )
    owner = np.repeat(np.arange(len(lengths)), lengths)
    start = np.cumsum(lengths) - lengths
    order, by_word = corpus.by_word, owner[corpus.by_word]
    mine = own[by_word] == by_word  # a word of the hypothesis: its bit is set where it stands
    bits = np.where(mine, np.uint64(1) << ((order - start[by_word]) % BITS).astype(np.uint64), np.uint64(0))
    runs = run_ends((words[order] << SHIFT) + own[by_word])  # the same word, of the same image
    here = np.zeros(len(words), np.uint64)
    if len(order):
        here[order] = np.repeat(np.bitwise_or.reduceat(bits, runs[:-1]), np.diff(runs))
    every = np.where(lengths[own] < BITS, (np.uint64(1) << (lengths[own] % BITS).astype(np.uint64)), 0) - np.uint64(1)
    row = every.copy()
    meets = np.flatnonzero(here)  # other words change nothing
    times = np.bincount(owner[meets], minlength=len(lengths))
    longest_first = np.argsort(-times, kind="stable")
    begin = np.cumsum(times) - times
    for n in range(int(times.max(initial=0))):
        some = longest_first[: np.searchsorted(-times[longest_first], -n)]
        now = row[some]
        step = now & here[meets[begin[some] + n]]
        row[some] = (now + step) | (now - step)
    common = lengths[own] - _ones(row & every)
    for i in np.flatnonzero(lengths[own] > BITS):
        mine, other = (words[start[k] : start[k] + lengths[k]].tolist() for k in (own[i], i))
        common[i] = _lcs(_bits(mine), len(mine), other)
    return common


def _ones(numbers: NDArray[np.uint64]) -> Ints:
    """Bits of each number that are set."""
    return np.asarray(_ONES[numbers.view(np.uint8)].reshape(-1, 8).sum(1), np.int64)


_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)


def _bits(words: Sequence[T]) -> dict[T, int]:
    """For each word a number whose bits are set where the word stands."""
    bits: dict[T, int] = {}
    for position, word in enumerate(words):
        bits[word] = bits.get(word, 0) | 1 << position
    return bits


def _lcs(bits: dict[T, int], length: int, other: Sequence[T]) -> int:
    """Length of the longest common subsequence, one row of the usual table per word, kept in the bits of a number.

    A zero bit marks a column where the row's value rises by one (Crochemore et al., 2001).
    """
    every = (1 << length) - 1
    row = every
    for word in other:
        if here := bits.get(word):
            step = row & here
            row = (row + step) | (row - step)
    return length - (row & every).bit_count()
