from __future__ import annotations

import numpy as np
import pytest

from groundling.metrics.classification import Proposals, region_classification
from groundling.metrics.grounding_image import references

DOG, CAT = [0, 0, 99, 99], [200, 0, 299, 99]
CAPTION = {
    "tokens": ["dog", "cat"],
    "process_idx": [0, 1],
    "process_clss": ["dog", "cat"],
    "process_bnd_box": [DOG, CAT],
}
SENTENCES = references({"annotations": [{"image_id": 1, "captions": [CAPTION]}]}, {"1"})


def score(boxes: list[list[int]], labels: list[str], frames: list[int] | None = None) -> float:
    regions = Proposals(
        np.array(boxes, np.float32).reshape(-1, 4), labels, None if frames is None else np.array(frames, np.intp)
    )
    return region_classification({"1": regions}, SENTENCES).score().value


def test_accuracy_is_averaged_over_the_classes_of_the_split() -> None:
    """dog: 1 of 2 proposals right; cat: none of 1. Mean of 1/2 and 0."""
    assert score([DOG, DOG, CAT], ["dog", "", "dog"]) == 0.25


def test_a_class_that_no_proposal_covers_counts_zero() -> None:
    assert score([DOG], ["dog"]) == 0.5


def test_a_proposal_of_another_frame_is_not_asked() -> None:
    assert score([DOG, CAT], ["dog", "cat"], frames=[0, 3]) == 0.5


def test_an_image_without_proposals_has_no_questions() -> None:
    assert region_classification({}, SENTENCES).score().value == 0
    assert region_classification({}, []).score().value == pytest.approx(float("nan"), nan_ok=True)
