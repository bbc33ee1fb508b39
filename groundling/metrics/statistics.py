"""Per-item statistics, computed once, aggregated at will.

Every metric here is a function of sums over items: BLEU of n-gram counts, a mean of (value, 1), F1 of hits and counts
per class. So a metric computes one row of numbers per item and a `combine` that turns summed rows into the score, and
bootstrap, paired tests and subsets cost one matrix product, never a second scoring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling import __version__
from groundling.types import Score, html_table

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix that is mostly zero, held as its other entries: hits per class, where an item shows few classes.

    It answers what `Statistics` asks of an array: the sum over rows, `weights @ matrix`, and `np.asarray`.
    """

    row: NDArray[np.intp]  # (z,)
    column: NDArray[np.intp]  # (z,)
    value: Array  # (z,); entries of the same place add up
    shape: tuple[int, int]

    __array_ufunc__ = None  # numpy then leaves `weights @ matrix` to __rmatmul__

    def sum(self, axis: int = 0) -> Array:
        assert axis == 0
        return np.asarray(np.bincount(self.column, self.value, minlength=self.shape[1]), np.float64)

    def __rmatmul__(self, weights: Array) -> Array:
        """(S, n) @ (n, s) -> (S, s), one row at a time: memory stays at S * s however many items there are."""
        out = np.empty((len(weights), self.shape[1]))
        for sums, weight in zip(out, weights, strict=True):
            sums[:] = np.bincount(self.column, self.value * weight[self.row], minlength=self.shape[1])
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        dense = np.zeros(self.shape)
        np.add.at(dense, (self.row, self.column), self.value)
        return dense if dtype is None else dense.astype(dtype)


@dataclass(frozen=True)
class Statistics:
    """One metric on n items: `score = combine(sum over items of values)`."""

    name: str
    signature: str
    ids: tuple[str, ...]  # n
    values: Array | Sparse  # (n, s)
    combine: Callable[[Array], Array]  # (..., s) sums -> (...) scores; must accept leading axes

    def score(self) -> Score:
        """The number; its signature has n, which some metrics give more fully (`n:3/200`)."""
        n = len(self.ids)
        about = self.signature if "|n:" in self.signature else with_fields(self.signature, n=n)
        return Score(self.name, float(self.combine(self.values.sum(0))), n, about)

    def resample(self, weights: Array) -> Array:
        """Scores of resampled corpora: (S, n) how much each item weighs -> (S,)."""
        return self.combine(weights @ self.values)

    def per_item(self) -> Array:
        """(n,) the score of each item alone."""
        return self.combine(np.asarray(self.values))


def mean_statistics(name: str, signature: str, ids: tuple[str, ...], values: Array) -> Statistics:
    """A metric that is the mean of one number per item."""
    with_ones = np.stack([values, np.ones_like(values)], axis=1)

    def mean(sums: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])

    return Statistics(name, signature, ids, with_ones, mean)


def signature(metric: str, **fields: Any) -> str:
    """`cider-d|df:corpus|tok:ptb-3.4.1|v:0.1.0`: enough for others to know exactly what was done."""
    return with_fields(f"{metric}|v:{__version__}", **fields)


def with_fields(signature: str, **fields: Any) -> str:
    """A signature with more fields, before its version."""
    head, mark, version = signature.rpartition("|v:")
    return "|".join([head or version, *(f"{key}:{value}" for key, value in fields.items())]) + (mark and mark + version)


class ScoreTable(list[Statistics]):
    """Statistics of several metrics: a list that is printed, and shown in a notebook, as a table of scores."""

    def __str__(self) -> str:
        return score_table(statistics.score() for statistics in self)

    def _repr_html_(self) -> str:
        return html_scores(statistics.score() for statistics in self)


def score_table(scores: Iterable[Score]) -> str:
    """Scores as lines of text, in columns."""
    rows = [("score", "value", "n", "signature"), *map(_cells, scores)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {value:>{widths[1]}}  {n:>{widths[2]}}  {sign}" for name, value, n, sign in rows
    )


def html_scores(scores: Iterable[Score]) -> str:
    """Scores as a table for notebooks."""
    return html_table(("score", "value", "n", "signature"), [_cells(score) for score in scores])


def _cells(score: Score) -> tuple[str, str, str, str]:
    return score.name, f"{score.value:.4f}", str(score.n), score.signature
