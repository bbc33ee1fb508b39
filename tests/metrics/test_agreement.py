"""Kendall's τ and the area under the curve."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from groundling.metrics.agreement import area_under_curve, kendall


def test_by_hand_with_ties() -> None:
    """x = 1 2 2 3, y = 1 1 2 2. Of six pairs: (1,2) ties in y, (2,3) in x, (3,4) in y; the other three agree.

    τ_b = 3 / √((6 − 1)(6 − 2)) = 3 / √20;  τ_c = 2 · 3 / (16 · (2 − 1) / 2) = 0.75.
    """
    found = kendall(np.array([1, 2, 2, 3]), np.array([1, 1, 2, 2]))
    assert found.tau_b == pytest.approx(3 / math.sqrt(20))
    assert found.tau_c == pytest.approx(0.75)


def test_the_same_order_is_1_and_the_opposite_minus_1() -> None:
    x = np.arange(10.0)
    assert kendall(x, x**3).tau_b == 1 and kendall(x, -x).tau_b == -1
    assert kendall(x, x).tau_c == pytest.approx(1)


def test_a_single_value_tells_nothing() -> None:
    found = kendall(np.ones(5), np.arange(5.0))
    assert math.isnan(found.tau_b) and math.isnan(found.tau_c)
    assert math.isnan(kendall(np.array([]), np.array([])).tau_b)


def test_as_counting_all_pairs() -> None:
    draw = np.random.default_rng(0)
    for _ in range(30):
        x, y = draw.integers(0, 6, 40), draw.integers(0, 4, 40)
        score = sum(np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i in range(40) for j in range(i))
        different = min(len(set(x.tolist())), len(set(y.tolist())))
        assert kendall(x, y).tau_c == pytest.approx(2 * score / (1600 * (different - 1) / different))


@pytest.mark.parametrize("variant", ["b", "c"])
def test_as_scipy(variant: str) -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(1)
    x, y = draw.normal(size=2000).round(1), draw.integers(1, 5, 2000)
    found = kendall(x, y)
    ours = found.tau_b if variant == "b" else found.tau_c
    assert ours == pytest.approx(stats.kendalltau(x, y, variant=variant).statistic, abs=1e-12)


def test_a_hundred_thousand_ratings_take_a_moment() -> None:
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=100_000), draw.integers(0, 4, 100_000)
    start = time.process_time()
    assert abs(kendall(x, y).tau_c) < 0.05
    assert time.process_time() - start < 3


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        kendall(np.array([1.0, np.nan]), np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="one length"):
        kendall(np.ones(2), np.ones(3))


def test_the_area_counts_pairs_and_half_of_the_ties() -> None:
    """(2 > 1), (2 = 2): 1 and 1/2; (3 > 1), (3 > 2): 1 and 1. Together 3.5 of 4."""
    assert area_under_curve(np.array([2, 3]), np.array([1, 2])) == 3.5 / 4
    assert math.isnan(area_under_curve(np.array([]), np.array([1])))
