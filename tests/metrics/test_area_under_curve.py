from __future__ import annotations

import numpy as np
import pytest

from groundling.metrics.agreement import area_under_curve


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
