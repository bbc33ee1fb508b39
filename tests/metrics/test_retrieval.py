"""Images by captions and captions by images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.metrics.retrieval import own_ranks, rsum, score_retrieval

SCORES = np.array([[0.9, 0.1, 0.3, 0.95], [0.7, 0.8, 0.6, 0.2], [0.2, 0.4, 0.65, 0.9]])
IMAGE_OF = np.array([0, 0, 1, 2])


def test_both_ways_by_hand() -> None:
    """Captions rank their images 1, 3, 2 and 2. The best own captions of the images rank 2, 3 and 1."""
    assert own_ranks([SCORES.T], IMAGE_OF).tolist() == [1, 3, 2, 2]
    found = score_retrieval(SCORES, IMAGE_OF, ["x", "y", "z"], ks=(1, 2))
    assert {one.name: one.score().value for one in found} == pytest.approx(
        {"i2t R@1": 1 / 3, "i2t R@2": 2 / 3, "t2i R@1": 1 / 4, "t2i R@2": 3 / 4}
    )
    assert found[0].ids == ("x", "y", "z") and found[2].ids == ("x#0", "x#1", "y#2", "z#3")
    assert found[0].signature.startswith("i2t-r@1|by:matcher|images:3|captions:4|v:")
    total = rsum(found)
    assert total.value == pytest.approx(200) and total.signature.startswith("rsum|by:matcher|images:3|captions:4|")


def test_a_model_to_which_all_are_alike_retrieves_nothing() -> None:
    assert rsum(score_retrieval(np.zeros((12, 24)), np.arange(24) % 12, [*"abcdefghijkl"])).value == 0


@given(st.integers(1, 7), st.integers(0, 9), st.integers(1, 5), st.integers(0, 1000))
def test_blocks_of_columns_give_what_sorting_the_whole_matrix_gives(
    images: int, more: int, size: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    image_of = draw.permutation([*range(images), *draw.integers(0, images, more)])
    scores = draw.integers(0, 5, (images, len(image_of))).astype(float)
    blocks = (scores[:, i : i + size] for i in range(0, len(image_of), size))
    found = {
        one.name: one.per_item() for one in score_retrieval(blocks, image_of, [*map(str, range(images))], ks=(1, 3))
    }
    for k in (1, 3):
        for n, image in enumerate(image_of):
            others = np.delete(scores[:, n], image)
            assert found[f"t2i R@{k}"][n] == (1 + (others >= scores[image, n]).sum() <= k)
        for image in range(images):
            own = scores[image, image_of == image].max()
            rank = 1 + (scores[image, image_of != image] >= own).sum()
            assert found[f"i2t R@{k}"][image] == (rank <= k)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3 rows of scores; there must be 4"):
        score_retrieval([SCORES[:, :3]], IMAGE_OF, ["x", "y", "z"])
    with pytest.raises(ValueError, match="got"):
        score_retrieval([SCORES, SCORES], IMAGE_OF, ["x", "y", "z"])
    with pytest.raises(ValueError, match="got"):
        score_retrieval(SCORES, IMAGE_OF, ["x", "y"])
    with pytest.raises(ValueError, match="image 3 has no caption"):
        score_retrieval(np.zeros((4, 4)), IMAGE_OF, [*"wxyz"])
    with pytest.raises(ValueError, match="caption 1 is NaN"):
        score_retrieval(np.where(SCORES == 0.8, np.nan, SCORES), IMAGE_OF, ["x", "y", "z"])
