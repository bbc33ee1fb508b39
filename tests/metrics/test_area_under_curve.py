from __future__ import annotations

import numpy as np
import pytest

from groundling.metrics.agreement import area_under_curve, average_precision


@pytest.mark.parametrize(
    ("scores", "truth", "area"),
    [
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], 1.0),  # every true item above every false one
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], 0.0),
        ([0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0], 0.5),  # all equal
        ([0.9, 0.3, 0.5, 0.1], [1, 1, 0, 0], 0.75),  # of four pairs only 0.3 < 0.5 is wrong
    ],
)
def test_the_area_is_the_share_of_pairs_in_the_right_order(scores: list[float], truth: list[int], area: float) -> None:
    assert area_under_curve(np.array(scores)[np.array(truth)], np.array(scores)[~np.array(truth)]) == pytest.approx(
        area
    )


def test_average_precision_of_four_and_of_equal_scores() -> None:
    """1 0 1 0 in falling order: (1/1 + 2/3) / 2 = 5/6. All equal: the share that is true."""
    assert average_precision(np.array([4, 3, 2, 1]), np.array([1, 0, 1, 0])) == pytest.approx(5 / 6)
    assert average_precision(np.zeros(4), np.array([0, 0, 1, 0])) == pytest.approx(1 / 4)
    assert np.isnan(average_precision(np.zeros(2), np.zeros(2)))
