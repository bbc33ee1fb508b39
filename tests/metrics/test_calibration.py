from __future__ import annotations

import json

import numpy as np
import pytest

from groundling.errors import DataError
from groundling.metrics.calibration import (
    Isotonic,
    expected_calibration_error,
    isotonic,
    logistic,
    reliability,
    sigmoid,
)


def test_isotonic_pools_what_falls() -> None:
    """Truth 0, 1, 0, 1 by rising score: the middle two fall and become 1/2 at their mean score, 2.5.

    Single members are no certainty: 0 of 1 is 1/3, 1 of 1 is 2/3.
    """
    found = isotonic(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 0, 1]))
    assert found.x == (1, 2.5, 4)
    np.testing.assert_allclose(found.p, [1 / 3, 1 / 2, 2 / 3])
    np.testing.assert_allclose(found(np.array([-9.0, 1.75, 9])), [1 / 3, 5 / 12, 2 / 3])


def test_a_single_wrong_answer_at_the_bottom_does_not_raise_the_levels_above_it() -> None:
    """A wrong one, twenty of which one is right, twenty of which nineteen are, a right one: 1/3 is more than 1/20."""
    truth = [0.0, 1.0, *[0.0] * 19, *[1.0] * 19, 0.0, 1.0]
    np.testing.assert_allclose(isotonic(np.arange(42.0), np.array(truth)).p, [0.05, 0.05, 0.95, 0.95])


def test_isotonic_makes_scores_honest() -> None:
    draw = np.random.default_rng(0)
    scores = draw.uniform(-1, 1, 8000)
    truth = (draw.uniform(size=8000) < 1 / (1 + np.exp(-5 * scores))).astype(float)
    found = isotonic(scores[::2], truth[::2])
    assert expected_calibration_error(reliability(found(scores[1::2]), truth[1::2])) < 0.03
    assert (np.diff(found(np.sort(scores))) >= 0).all()


def test_reliability_and_its_error_by_hand() -> None:
    """Two answers of 0.9, one right: |0.9 − 0.5|; two of 0.1, none right: 0.1. (2 · 0.4 + 2 · 0.1) / 4 = 0.25."""
    curve = reliability(np.array([0.9, 0.9, 0.1, 0.1]), np.array([1.0, 0, 0, 0]))
    assert [(b.n, b.true) for b in curve] == [(2, 0.0), (2, 0.5)]
    assert expected_calibration_error(curve) == pytest.approx(0.25)


def test_a_probability_of_one_is_in_the_last_bin() -> None:
    assert reliability(np.array([1.0]), np.array([1.0]))[0].high == 1


def test_a_calibration_survives_json() -> None:
    found = isotonic(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 0, 1]))
    assert Isotonic.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"x": [], "p": []},
        {"x": [1, 2], "p": [0.5]},
        {"x": [1, 2], "p": [0.9, 0.1]},
        {"x": [1], "p": [2]},
        {"x": "a", "p": 1},
        {"x": [float("nan")], "p": [0.5]},
        {"x": [10**400], "p": [0.5]},
    ],
)
def test_what_is_no_calibration_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not a calibration"):
        Isotonic.from_json(row)


def test_logistic_regression_of_two_groups_is_their_log_odds() -> None:
    """3 of 4 true where x = 0, 1 of 4 where x = 1: without a penalty w = (log 3, −2 log 3)."""
    x = np.array([[1.0, 0.0]] * 4 + [[1.0, 1.0]] * 4)
    found = logistic(x, np.array([1, 1, 1, 0, 1, 0, 0, 0.0]), ridge=1e-9)
    assert found == pytest.approx([np.log(3), -2 * np.log(3)], abs=1e-6)


def test_the_gradient_of_the_penalised_likelihood_vanishes_even_where_groups_are_apart() -> None:
    draw = np.random.default_rng(0)
    x = np.c_[np.ones(50), draw.normal(size=(50, 2))]
    truth = (x[:, 1] > 0).astype(float)
    w = logistic(x, truth)
    assert x.T @ (sigmoid(x @ w) - truth) + w == pytest.approx(np.zeros(3), abs=1e-8)
    assert np.isfinite(logistic(x, np.ones(50))).all()


def test_the_sigmoid_does_not_overflow() -> None:
    assert sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0, 0.5, 1]
