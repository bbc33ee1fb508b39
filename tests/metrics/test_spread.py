from __future__ import annotations

import math

import pytest

from groundling.metrics.spread import spread
from groundling.types import Score


def runs(*values: float) -> list[list[Score]]:
    return [[Score("f1_loc", value, 5, "f1_loc|v:1")] for value in values]


def test_mean_and_deviation_of_three_runs() -> None:
    """1, 2, 6: mean 3, deviation √((4 + 1 + 9) / 2) = √7."""
    (one,) = spread(runs(1, 2, 6))
    assert one.mean == 3
    assert one.deviation == pytest.approx(math.sqrt(7))
    assert str(one) == "3.0000 ± 2.6458"
    assert one.values == (1, 2, 6)


def test_of_one_run_the_deviation_is_not_known() -> None:
    (one,) = spread(runs(0.5))
    assert math.isnan(one.deviation)
    assert str(one) == "0.5000"


def test_runs_that_were_scored_differently_are_not_averaged() -> None:
    with pytest.raises(ValueError, match="different scores"):
        spread([*runs(1), [Score("f1_loc", 1, 5, "f1_loc|iou:0.3|v:1")]])
    with pytest.raises(ValueError, match="zip"):
        spread([*runs(1), []])
