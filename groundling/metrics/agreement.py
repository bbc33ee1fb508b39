"""Rank correlation with people's judgement: Kendall's τ_b and Stuart's τ_c, in O(n log n).

With P concordant and Q discordant pairs of n items, n0 = n (n − 1) / 2, n1 and n2 the pairs that tie in x and in y, and
m the smaller number of different values:

    τ_b = (P − Q) / √((n0 − n1)(n0 − n2))        τ_c = 2 (P − Q) / (n² (m − 1) / m)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]


@dataclass(frozen=True)
class Kendall:
    """Both are NaN where one side has a single value."""

    tau_b: float
    tau_c: float
    n: int


def kendall(x: NDArray[Any], y: NDArray[Any]) -> Kendall:
    """Of two lists of numbers, item by item."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"two lists of one length are compared, got {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("a value is not a finite number")
    a, b = _ranks(x), _ranks(y)
    n = len(a)
    order = np.lexsort((b, a))
    total, tied_a, tied_b = n * (n - 1) // 2, _tied(a), _tied(b)
    both = _tied(a * (int(b.max(initial=0)) + 1) + b)
    difference = total - tied_a - tied_b + both - 2 * _inversions(b[order])  # P − Q
    different = min(len(np.unique(a)), len(np.unique(b)))
    if different < 2:
        return Kendall(float("nan"), float("nan"), n)
    tau_b = difference / np.sqrt(float(total - tied_a) * float(total - tied_b))
    return Kendall(float(tau_b), 2 * difference / (n * n * (different - 1) / different), n)


def _ranks(values: NDArray[np.float64]) -> Ranks:
    """Each value as its place among the different values, from 0."""
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64).reshape(-1)


def _tied(ranks: Ranks) -> int:
    """Pairs of equal values."""
    counts = np.unique(ranks, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(ranks: Ranks) -> int:
    """Pairs in which the larger value comes first: bit by bit, among values that agree in all higher bits."""
    total = 0
    for bit in reversed(range(int(ranks.max(initial=0)).bit_length())):
        group = ranks >> (bit + 1)
        ones = (ranks >> bit) & 1
        before = np.cumsum(ones) - ones  # ones to the left, in all groups
        first = np.searchsorted(group, group)  # where each item's group begins
        total += int(((before - before[first]) * (1 - ones)).sum()) if len(ranks) else 0
        ranks = ranks[np.argsort(ranks >> bit, kind="stable")]
    return total


def area_under_curve(high: NDArray[Any], low: NDArray[Any]) -> float:
    """How often a value of the first kind is above one of the second; equal ones count half. NaN where one is empty."""
    high, low = np.asarray(high, float), np.sort(np.asarray(low, float))
    if not (len(high) and len(low)):
        return float("nan")
    below, upto = np.searchsorted(low, high, "left"), np.searchsorted(low, high, "right")
    return float((below + upto).sum() / (2 * len(high) * len(low)))


def average_precision(scores: NDArray[Any], truth: NDArray[Any]) -> float:
    """Σ_k (R_k − R_{k−1}) P_k over falling thresholds, equal scores passing together; NaN where nothing is true."""
    scores, truth = np.asarray(scores, float), np.asarray(truth, float)
    if not truth.sum():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # of equal scores
    hits, chosen = np.cumsum(truth[order])[last], np.flatnonzero(last) + 1
    return float((np.diff(hits, prepend=0) * hits / chosen).sum() / truth.sum())
