"""Does a probability mean what it says? Isotonic regression makes it so, reliability and ECE tell whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.metrics.statistics import Array

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Answers whose probability is from `low` to `high`: how many, what they say on average, and how many are right."""

    low: float
    high: float
    n: int
    said: float
    true: float


@dataclass(frozen=True)
class Isotonic:
    """A function that never falls, from any score to a probability; linear between its knots, constant beyond them."""

    x: tuple[float, ...]
    p: tuple[float, ...]

    def __call__(self, scores: Array) -> Array:
        return np.asarray(np.interp(scores, self.x, self.p))

    def to_json(self) -> dict[str, list[float]]:
        return {"x": list(self.x), "p": list(self.p)}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Isotonic:
        """The inverse of `to_json`; DataError for anything that is no such function."""
        try:
            x, p = np.array(row["x"], float), np.array(row["p"], float)
            sound = x.shape == p.shape == (len(x),) and len(x) > 0 and (np.diff(x) >= 0).all() and np.isfinite(x).all()
            sound = sound and (np.diff(p) >= 0).all() and p[0] >= 0 and p[-1] <= 1
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DataError(f"not a calibration: {type(error).__name__}: {error}") from error
        if not sound:
            raise DataError("not a calibration: x and p must be lists of one length that never fall, p from 0 to 1")
        return Isotonic(tuple(x.tolist()), tuple(p.tolist()))


def isotonic(scores: Array, truth: Array) -> Isotonic:
    """The rising step function with the least squared error to `truth` (0 or 1): pool adjacent violators.

    Each level becomes a knot at the mean score of its members; no knot says that it is certain: with n members, a
    level is at least 1 / (n + 2) and at most (n + 1) / (n + 2).
    """
    if len(scores) == 0:
        raise ValueError("there is nothing to calibrate with")
    order = np.argsort(scores, kind="stable")
    levels: list[list[float]] = []  # members, sum of truth, sum of scores
    for score, true in zip(scores[order].tolist(), truth[order].tolist(), strict=True):
        levels.append([1.0, true, score])
        while len(levels) > 1 and levels[-2][1] * levels[-1][0] >= levels[-1][1] * levels[-2][0]:
            last = levels.pop()
            levels[-1] = [a + b for a, b in zip(levels[-1], last, strict=True)]
    n, true, total = np.array(levels).T
    p = np.clip(true / n, 1 / (n + 2), (n + 1) / (n + 2))
    return Isotonic(tuple((total / n).tolist()), tuple(np.maximum.accumulate(p).tolist()))


def reliability(probability: Array, truth: Array, bins: int = BINS) -> list[Bin]:
    """Bins of equal width that hold any answer."""
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    held = [(b, bin_of == b) for b in range(bins) if (bin_of == b).any()]
    return [
        Bin(b / bins, (b + 1) / bins, int(m.sum()), float(probability[m].mean()), float(truth[m].mean()))
        for b, m in held
    ]


def expected_calibration_error(curve: list[Bin]) -> float:
    """Σ_b (n_b / n) |said_b − true_b|"""
    total = sum(b.n for b in curve)
    return sum(b.n * abs(b.said - b.true) for b in curve) / max(1, total)
