"""Is a difference real? Bootstrap intervals and paired tests for every metric that is given as `Statistics`.

Scores are functions of sums over items, so a resampled corpus costs one row of a matrix product (`Statistics`) and no
metric is computed twice. Resamples come in blocks: memory stays flat however many there are. All draws follow `seed`.

    interval          percentiles of the Bayesian bootstrap (Rubin 1981): instead of being drawn 0, 1, 2 .. times, items
                      get weights from a flat Dirichlet law. On means the two agree; but where a score averages over
                      classes, drawing loses the only images of rare classes, and with them a part of the score
    paired bootstrap  both systems under the same weights (after Koehn, EMNLP 2004); p = share of resamples in which the
                      difference lies as far from the observed one as that lies from 0
    randomisation     the systems' results swapped, item by item, with probability 1/2 (Noreen 1989); p = share of swaps
                      that differ at least as much as the systems do
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from groundling.errors import DataError
from groundling.metrics.statistics import Array, Sparse, Statistics

BLOCK = 64  # resamples at a time


@dataclass(frozen=True)
class Interval:
    name: str
    value: float
    low: float
    high: float
    level: float
    samples: int


@dataclass(frozen=True)
class Comparison:
    """System against baseline on one metric; `difference` = system - baseline."""

    name: str
    baseline: float
    system: float
    difference: float
    low: float  # of the difference
    high: float
    p_bootstrap: float
    p_randomisation: float
    samples: int


def intervals(metrics: Sequence[Statistics], samples: int = 1000, level: float = 0.95, seed: int = 0) -> list[Interval]:
    """A confidence interval for each metric. Metrics of equally many items share their weights."""
    return [
        Interval(metric.name, metric.score().value, *_ends(scores, level), level, samples)
        for metric, scores in zip(metrics, resample(metrics, samples, seed), strict=True)
    ]


def compare(
    baseline: Sequence[Statistics],
    system: Sequence[Statistics],
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Comparison]:
    """Two systems, metric by metric (same names, same items, in any order), with both paired tests."""
    theirs = {metric.name: metric for metric in system}
    if missing := [metric.name for metric in baseline if metric.name not in theirs]:
        raise DataError(f"the second system has no {', '.join(missing)}; score both with the same metrics")
    rows: dict[int, Array | Sparse] = {}
    ours = [_aligned(theirs[metric.name], metric, rows) for metric in baseline]
    before, after = resample(baseline, samples, seed), resample(ours, samples, seed)
    swapped = _swapped(baseline, ours, samples, seed)
    return [_comparison(*row, level) for row in zip(baseline, ours, before, after, swapped, strict=True)]


def _comparison(a: Statistics, b: Statistics, before: Array, after: Array, swapped: Array, level: float) -> Comparison:
    baseline, system = a.score().value, b.score().value
    difference = system - baseline
    low, high = _ends(after - before, level)
    return Comparison(
        name=a.name,
        baseline=baseline,
        system=system,
        difference=difference,
        low=low,
        high=high,
        p_bootstrap=_p(np.abs(after - before - difference), abs(difference)),
        p_randomisation=_p(np.abs(swapped), abs(difference)),
        samples=len(swapped),
    )


def resample(metrics: Sequence[Statistics], samples: int = 1000, seed: int = 0) -> list[Array]:
    """(samples,) scores of every metric: one product for each matrix, however many metrics read it.

    The weights follow from the seed and the number of items: scores of two systems on the same items are paired.
    """
    out = [np.empty(samples) for _ in metrics]
    for n in {len(metric.ids) for metric in metrics}:
        start = 0
        for weights in _weights(n, samples, seed):
            sums: dict[int, Array] = {}
            for metric, scores in zip(metrics, out, strict=True):
                if len(metric.ids) == n:
                    if id(metric.values) not in sums:
                        sums[id(metric.values)] = np.asarray(weights @ metric.values)
                    scores[start : start + len(weights)] = metric.combine(sums[id(metric.values)])
            start += len(weights)
    return out


def _swapped(first: Sequence[Statistics], second: Sequence[Statistics], samples: int, seed: int) -> list[Array]:
    """Differences of every metric when the systems swap their results on random items."""
    out = [np.empty(samples) for _ in first]
    for n in {len(metric.ids) for metric in first}:
        start = 0
        for swap in _swaps(n, samples, seed):
            sums: dict[tuple[int, int], tuple[Array, Array]] = {}
            for a, b, differences in zip(first, second, out, strict=True):
                if len(a.ids) == n:
                    key = id(a.values), id(b.values)
                    if key not in sums:
                        moved = np.asarray(swap @ b.values - swap @ a.values)
                        sums[key] = a.values.sum(0) + moved, b.values.sum(0) - moved
                    differences[start : start + len(swap)] = b.combine(sums[key][1]) - a.combine(sums[key][0])
            start += len(swap)
    return out


def _weights(n: int, samples: int, seed: int) -> Iterator[Array]:
    """Blocks (S, n) of item weights, Dirichlet(1, ..., 1), that add up to n."""
    random = np.random.default_rng(seed)
    for start in range(0, samples, BLOCK):
        weights = random.standard_exponential((min(BLOCK, samples - start), n))
        yield weights * (n / weights.sum(1, keepdims=True)) if n else weights


def _swaps(n: int, samples: int, seed: int) -> Iterator[Array]:
    """Blocks (S, n) of 0 and 1: which items swap systems."""
    random = np.random.default_rng([seed, 1])
    for start in range(0, samples, BLOCK):
        yield random.integers(0, 2, (min(BLOCK, samples - start), n)).astype(float)


def _aligned(metric: Statistics, like: Statistics, rows: dict[int, Array | Sparse]) -> Statistics:
    """The same statistics with their items in the order of `like`; `rows` remembers matrices already put in order."""
    if metric.ids == like.ids:
        return metric
    index = {item: i for i, item in enumerate(like.ids)}
    if len(index) != len(metric.ids) or any(item not in index for item in metric.ids):
        odd = min(set(metric.ids) ^ set(like.ids), default="")
        raise DataError(f"the systems were scored on different items: {odd!r} is in one of them only")
    order = np.array([index[item] for item in metric.ids], np.intp)
    if id(metric.values) not in rows:
        values = metric.values
        if isinstance(values, Sparse):
            rows[id(values)] = Sparse(order[values.row], values.column, values.value, values.shape)
        else:
            rows[id(values)] = values[np.argsort(order)]
    return Statistics(metric.name, metric.signature, like.ids, rows[id(metric.values)], metric.combine)


def _ends(scores: Array, level: float) -> tuple[float, float]:
    """The central interval; NaN where no score could be computed."""
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        return float("nan"), float("nan")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _p(distances: Array, observed: float) -> float:
    """Share of distances at least as large, with the observed one counted in; NaN compares as no evidence."""
    if np.isnan(observed):
        return float("nan")
    as_far = ~(distances < observed - 1e-12)
    return float((as_far.sum() + 1) / (len(distances) + 1))
