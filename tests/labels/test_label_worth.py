"""How labels teach a detector in `bench/label_worth.py`: targets by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

spec = importlib.util.spec_from_file_location("label_worth", Path(__file__).parents[2] / "bench" / "label_worth.py")
assert spec and spec.loader
worth = importlib.util.module_from_spec(spec)

sys.modules["label_worth"] = worth
spec.loader.exec_module(worth)


def test_targets_say_what_is_shown_and_what_nobody_knows() -> None:
    """Two regions; a dog is surely at the first, a man perhaps at the second, a hat is named and has no box."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]])
    found = {
        "dog": [worth.SureBox((0, 0, 10, 8), 0.8)],
        "man": [worth.SureBox((20, 0, 30, 10), 0.3)],
    }
    image = worth.Image("a", torch.zeros(2, 3), boxes, frozenset({"dog", "man", "hat"}), found, {})
    nouns = ["dog", "man", "hat", "cat"]
    shown, known = worth.targets(image, found, nouns, worth.Teaching(0.5))
    assert shown.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert known.tolist() == [[1, 0, 0, 1], [1, 0, 0, 1]]
    shown, known = worth.targets(image, found, nouns, worth.Teaching(0.5, soft=True, apart=True))
    assert shown[0, 0] == torch.tensor(0.8) and known.tolist() == [[1, 1, 0, 1], [1, 0, 0, 1]]


def test_average_precision_by_hand() -> None:
    """Right, wrong, right of 4 true ones: 1/4 at precision 1, 1/4 at 2/3; the wrong one thrice: 1/4 + 1/4 · 2/5."""
    right = np.array([1.0, 0.0, 1.0])
    assert worth.average_precision(right, 4, np.ones(3)) == pytest.approx(0.25 + 0.25 * 2 / 3)
    assert worth.average_precision(right, 4, np.array([1.0, 3.0, 1.0])) == pytest.approx(0.25 + 0.25 * 2 / 5)
    assert worth.average_precision(np.zeros(0), 4, np.zeros(0)) == 0


def test_an_image_that_is_drawn_twice_counts_twice() -> None:
    """A noun in two images, one true box in each: found first in one, in the other only after a wrong one."""
    some = worth.Found([(np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0]))], np.array([[1.0], [1.0]]))
    assert some.mean_ap() == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert some.mean_ap(np.array([2.0, 0.0])) == 1.0
    assert some.mean_ap(np.array([0.0, 2.0])) == pytest.approx(2 / 4)


def test_the_interval_of_equal_detectors_is_a_point() -> None:
    some = worth.Found([(np.array([0, 1]), np.array([1.0, 1.0]))], np.array([[1.0], [1.0]]))
    assert worth.intervals([some], [some], 5) == {"ratio": (1.0, 1.0), "difference": (0.0, 0.0)}
