"""ROUGE-L of captions, with the constants of the published scorer.

Lin, ACL workshop 2004. With LCS the length of the longest common subsequence of words,

    P = max_r LCS / words of the hypothesis,   R = max_r LCS / words of r,   F = (1 + b^2) P R / (R + b^2 P),   b = 1.2

the two maxima over the references being taken apart from each other. The score of a corpus is the mean. A text without
words counts as one empty word, as in the published scorer, so two empty texts score 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Words = Sequence[str]

BETA2 = 1.2**2


def rouge_l(hypotheses: Iterable[Words], references: Iterable[Sequence[Words]]) -> NDArray[np.float64]:
    """ROUGE-L of each item, 0 to 1; words already tokenised."""
    scores = []
    for index, (hypothesis, refs) in enumerate(zip(hypotheses, references, strict=True)):
        if not refs:
            raise ValueError(f"image {index} has no reference")
        words = hypothesis or [""]
        bits = _bits(words)
        common = [(_lcs(bits, len(words), ref or [""]), len(ref) or 1) for ref in refs]
        precision = max(lcs for lcs, _ in common) / len(words)
        recall = max(lcs / length for lcs, length in common)
        scores.append((1 + BETA2) * precision * recall / (recall + BETA2 * precision) if precision else 0.0)
    return np.array(scores, np.float64)


def _bits(words: Sequence[str]) -> dict[str, int]:
    """For each word a number whose bits are set where the word stands."""
    bits: dict[str, int] = {}
    for position, word in enumerate(words):
        bits[word] = bits.get(word, 0) | 1 << position
    return bits


def _lcs(bits: dict[str, int], length: int, other: Sequence[str]) -> int:
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
