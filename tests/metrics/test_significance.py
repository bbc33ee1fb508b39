from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from groundling.errors import DataError
from groundling.metrics.grounding_image import ground_image
from groundling.metrics.significance import compare, intervals, resample
from groundling.metrics.statistics import Sparse, Statistics, mean_statistics

VECTORS = Path(__file__).parent.parent / "vectors"


def mean(values: np.ndarray, name: str = "mean", ids: list[str] | None = None) -> Statistics:
    return mean_statistics(name, name, tuple(ids or map(str, range(len(values)))), np.asarray(values, float))


def test_the_interval_of_a_mean_is_that_of_the_normal_law() -> None:
    """400 coins: the mean is 1/2 with a standard error of 1/40, so the 95 % interval is 0.5 +- 1.96 / 40 = 0.049."""
    found = intervals([mean(np.arange(400) % 2)], samples=4000)[0]
    assert found.value == 0.5
    assert found.low == pytest.approx(0.5 - 0.049, abs=0.006)
    assert found.high == pytest.approx(0.5 + 0.049, abs=0.006)


def test_the_same_seed_gives_the_same_interval_whatever_else_is_asked_for() -> None:
    metric, other = mean(np.random.default_rng(0).normal(size=50)), mean(np.ones(20), "other")
    assert intervals([metric], 100, seed=3)[0] == intervals([other, metric], 100, seed=3)[1]
    assert intervals([metric], 100, seed=3) != intervals([metric], 100, seed=4)


def test_the_first_samples_are_the_same_however_many_are_drawn() -> None:
    """So that runs with 100 samples can be paired with others that have 150, whose blocks end elsewhere."""
    metric = mean(np.random.default_rng(0).normal(size=50))
    (few,), (many,) = resample([metric], 100), resample([metric], 150)
    np.testing.assert_array_equal(few, many[:100])


def test_a_system_equal_to_the_baseline_is_not_significantly_better() -> None:
    metric = mean(np.random.default_rng(0).normal(size=100))
    found = compare([metric], [metric], samples=200)[0]
    assert found.difference == 0
    assert found.p_bootstrap == found.p_randomisation == 1


def test_a_small_difference_on_every_item_is_significant_and_the_same_difference_in_noise_is_not() -> None:
    random = np.random.default_rng(0)
    base = random.normal(size=200)
    steady, noisy = base + 0.1, base + 0.1 + random.permutation(np.repeat([-3, 3], 100))
    for system, significant in ((steady, True), (noisy, False)):
        found = compare([mean(base)], [mean(system)], samples=1000)[0]
        assert found.difference == pytest.approx(0.1)
        assert (found.p_bootstrap < 0.05) == (found.p_randomisation < 0.05) == (not found.low < 0 < found.high)
        assert (found.p_bootstrap < 0.05) == significant


def test_randomisation_of_three_items_finds_the_exact_share_of_swaps() -> None:
    """Differences 1, 1, 1: of the 8 swaps 2 reach |3| / 3 again: p = 1/4."""
    found = compare([mean(np.zeros(3))], [mean(np.ones(3))], samples=8000)[0]
    assert found.p_randomisation == pytest.approx(0.25, abs=0.02)


def test_items_in_another_order_are_put_in_order_and_other_items_are_refused() -> None:
    values = np.random.default_rng(0).normal(size=30)
    ids = [str(i) for i in range(30)]
    turned = mean(values[::-1] + 0.1, ids=ids[::-1])
    straight = mean(values + 0.1)
    assert (
        compare([mean(values)], [turned], 100)[0].p_bootstrap == compare([mean(values)], [straight], 100)[0].p_bootstrap
    )
    with pytest.raises(DataError, match="different items: '0' is in one of them only"):
        compare([mean(values)], [mean(values, ids=[*ids[1:], "x"])], 100)
    with pytest.raises(DataError, match="the second system has no mean"):
        compare([mean(values)], [mean(values, "other")], 100)


def test_a_sparse_matrix_resamples_as_the_dense_one_does() -> None:
    random = np.random.default_rng(0)
    dense = random.integers(0, 3, (40, 7)).astype(float)
    row, column = np.nonzero(dense)
    sparse = Sparse(row, column, dense[row, column], dense.shape)
    weights = random.integers(0, 4, (5, 40)).astype(float)
    np.testing.assert_allclose(weights @ sparse, weights @ dense)
    np.testing.assert_allclose(sparse.sum(0), dense.sum(0))
    np.testing.assert_allclose(np.asarray(sparse), dense)


def test_class_averaged_f1_has_an_interval_and_a_paired_test_without_rescoring() -> None:
    with gzip.open(VECTORS / "grounding_image_s.json.gz") as file:
        data = json.load(file)
    files = data["reference"], data["splits"], data["eval_split"]
    submission = data["submission_generated"]
    worse = {"results": {k: v for i, (k, v) in enumerate(submission["results"].items()) if i % 2}}
    good, bad = (
        [s for group in ground_image(one, *files, 0.5, data["lemma"]).statistics().values() for s in group.values()]
        for one in (submission, worse)
    )
    for interval in intervals(good, 200):
        assert interval.low < interval.value < interval.high
    found = {one.name: one for one in compare(bad, good, 200)}
    recall = found["recall_all"]
    scored = [ground_image(one, *files, 0.5, data["lemma"]).to_dict()["all"]["recall"] for one in (worse, submission)]
    assert [recall.baseline, recall.system] == pytest.approx(scored, abs=1e-12)
    assert recall.difference > 0 and recall.low > 0
    assert recall.p_randomisation < 0.05 and recall.p_bootstrap < 0.05
