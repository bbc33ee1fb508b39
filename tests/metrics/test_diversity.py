"""Diversity and self-retrieval, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.metrics.diversity import distinct, novel, score_diversity, self_retrieval
from groundling.metrics.retrieval import own_ranks
from groundling.metrics.significance import intervals

CAPTIONS = [["a", "dog", "runs"], ["a", "dog"], []]


def test_distinct_n_by_hand() -> None:
    """Words a dog runs a dog: 3 of 5; pairs (a dog) (dog runs) (a dog): 2 of 3; triples 1 of 1; no quadruples."""
    assert distinct(CAPTIONS)[:3] == [3 / 5, 2 / 3, 1]
    assert math.isnan(distinct(CAPTIONS)[3])


def test_a_caption_of_the_training_set_is_not_novel() -> None:
    found = novel(CAPTIONS, [("a", "dog"), ("dog",)], ["x", "y", "z"])
    assert found.score().value == 2 / 3
    assert dict(zip(found.ids, found.per_item(), strict=True)) == {"x": 1, "y": 0, "z": 1}
    (interval,) = intervals([found], 200)
    assert 0 < interval.low < 2 / 3 < interval.high < 1


def test_scores_have_names_numbers_and_signatures() -> None:
    scores = {s.name: s for s in score_diversity(CAPTIONS, [["a", "dog"]], tok="ptb-3.4.1")}
    assert {name: s.value for name, s in scores.items()} == pytest.approx(
        {"distinct-1": 3 / 5, "distinct-2": 2 / 3, "vocabulary": 3, "novel": 2 / 3}
    )
    assert scores["novel"].n == 3 and scores["novel"].signature.startswith("novel|tok:ptb-3.4.1|n:3|v:")
    assert "novel" not in {s.name for s in score_diversity(CAPTIONS)}


def test_self_retrieval_by_hand() -> None:
    """Own images rank 1, 2 and 3."""
    scores = np.array([[-1.0, -2, -3], [-1, -2, -3], [-1, -2, -3]])
    first, second = self_retrieval(scores, ["x", "y", "z"], ks=(1, 2))
    assert own_ranks([scores]).tolist() == [1, 2, 3]
    assert (first.name, first.score().value, second.score().value) == ("R@1", 1 / 3, 2 / 3)
    assert first.per_item().tolist() == [1, 0, 0]
    assert first.signature.startswith("r@1|by:logp|n:3|v:")


def test_a_model_to_which_all_images_are_alike_retrieves_nothing() -> None:
    assert own_ranks([np.zeros((4, 4))]).tolist() == [4, 4, 4, 4]


@given(st.integers(1, 9), st.integers(1, 9))
def test_blocks_give_what_the_whole_matrix_gives(n: int, size: int) -> None:
    scores = np.random.default_rng(n * 10 + size).integers(0, 4, (n, n)).astype(float)
    blocks = [scores[i : i + size] for i in range(0, n, size)]
    assert own_ranks(iter(blocks)).tolist() == own_ranks([scores]).tolist()


def test_minus_infinity_is_a_score_and_nan_is_none() -> None:
    assert own_ranks([np.array([[-np.inf, -1.0], [-np.inf, -1.0]])]).tolist() == [2, 1]
    with pytest.raises(ValueError, match="caption 1 is NaN"):
        own_ranks([np.array([[0.0, 1.0], [np.nan, 1.0]])])


@pytest.mark.parametrize("shape", [(2, 3), (4, 3)])
def test_captions_and_images_must_be_as_many(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="rows|as many"):
        own_ranks([np.zeros(shape)])
    with pytest.raises(ValueError, match="3 captions for 2 ids"):
        self_retrieval(np.zeros((3, 3)), ["a", "b"])
