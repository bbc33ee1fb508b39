from __future__ import annotations

import numpy as np
import pytest

from groundling.metrics.overlap import contains


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ([0, 0, 9, 9], [2, 2, 5, 5], True),
        ([0, 0, 9, 9], [0, 0, 9, 9], True),  # edges may touch
        ([0, 0, 9, 9], [2, 2, 2, 5], True),  # a line of pixels
        ([0, 0, 9, 9], [2, 2, 5, 10], False),
        ([0, 0, 9, 9], [5, 5, 2, 2], False),  # upside down
        ([0, 0, 9, 9], [5, 2, 2, 5], False),
        ([9, 9, 0, 0], [9, 9, 0, 0], False),
        ([0, 0, 9, 9], [4, 4, 4, 4], False),  # one pixel
        ([4, 4, 4, 4], [4, 4, 4, 4], False),
        ([0, 0, 9, 9], [np.nan, 2, 5, 5], False),
    ],
)
def test_a_box_contains_a_box_and_nothing_that_is_no_box(
    outer: list[float], inner: list[float], expected: bool
) -> None:
    assert contains(np.array([outer], np.float32), np.array([inner], np.float32)).tolist() == [expected]
