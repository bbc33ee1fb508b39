"""Where the things of an image are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from labelled_photos import phrase

from groundling.labels.features import NAMES
from groundling.labels.grounder import Ranked
from groundling.labels.placing import Placed, place

BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [0, 0, 11, 10]], float)


def ranked(overlap: list[list[float]], classes: list[int] | None = None, sure: list[float] | None = None) -> Ranked:
    scores = np.array(overlap)
    evidence = tuple(0.9 for _ in overlap)
    known, likely = np.array([classes or [-1] * 4]).T, np.array([sure or [0.0] * 4]).T
    return Ranked(BOXES, scores, scores, evidence, (60, 20), known, likely, ("cat", "dog", "word:dog"))


def test_a_thing_is_where_all_its_phrases_together_say() -> None:
    """Means 0.35 and 0.5: the second region, though the first phrase prefers the first."""
    found = place(ranked([[0.6, 0.5, 0, 0], [0.1, 0.5, 0, 0]]), [phrase("dog", 0), phrase("dog", 1)], [[0, 1]])
    assert found[0].boxes == ((20, 0, 30, 10),)
    assert found[0].scores == (0.5,)
    assert found[0].evidence == 0.9


def test_two_men_of_one_caption_get_two_boxes() -> None:
    """The less sure one may take neither the box of the other nor one that is nearly the same (region 3)."""
    phrases = [phrase("man", 0, 0), phrase("man", 0, 9)]
    found = place(ranked([[0.8, 0.3, 0, 0.7], [0.9, 0.4, 0, 0.8]]), phrases, [[0], [1]])
    assert [one.boxes[0] for one in found] == [(20, 0, 30, 10), (0, 0, 10, 10)]


def test_different_nouns_may_share_a_box() -> None:
    phrases = [phrase("snow", 0, 0), phrase("mountain", 0, 9)]
    found = place(ranked([[0.8, 0.3, 0, 0], [0.9, 0.4, 0, 0]]), phrases, [[0], [1]])
    assert [one.boxes[0] for one in found] == [(0, 0, 10, 10)] * 2


def test_a_plural_phrase_gets_the_instances_that_the_detector_sees() -> None:
    """Regions 0, 1 and 3 are dogs, 3 being the same as 0; region 2 is a cat."""
    scores = ranked([[0.2, 0.5, 0.9, 0.1]], [1, 1, 0, 1], [0.9, 0.8, 0.9, 0.7])
    found = place(scores, [phrase("dog", count=6)], [[0]])
    assert found[0].boxes == ((20, 0, 30, 10), (0, 0, 10, 10))
    assert found[0].scores == (0.5, 0.2)


def test_two_dogs_are_no_more_than_two() -> None:
    scores = ranked([[0.2, 0.5, 0.3, 0.1]], [1, 1, 1, 1], [0.9, 0.8, 0.7, 0.6])
    assert len(place(scores, [phrase("dog", count=2)], [[0]])[0].boxes) == 2


def test_a_plural_phrase_without_instances_gets_its_best_box() -> None:
    scores = ranked([[0.2, 0.5, 0.9, 0.1]], [1, 0, 0, 0], [0.9, 0.8, 0.9, 0.7])
    assert place(scores, [phrase("dog", count=6)], [[0]])[0].boxes == ((40, 0, 50, 10),)


def features(found: Placed) -> dict[str, float]:
    return dict(zip(NAMES, found.features[0], strict=True))


def test_the_features_of_a_box_by_hand() -> None:
    """Two phrases: the first is best in region 0, the second in region 1; region 1 is chosen, its class is a dog."""
    seen = ranked([[0.6, 0.5, 0, 0], [0.1, 0.5, 0, 0]], [1, 1, 0, 0], [0.9, 0.6, 0, 0])
    row = features(place(seen, [phrase("dog", 0), phrase("dog", 1)], [[0, 1]])[0])
    assert row["log_odds"] == 0.0 and row["similarity"] == 0.5
    assert row["evidence"] == pytest.approx(math.log(9))
    assert row["margin"] == pytest.approx(0.5 - 0.35)  # region 0 has the mean 0.35
    assert row["agreement"] == 0.5  # IoU 0 with the best of the first phrase, 1 with that of the second
    assert row["mentions"] == pytest.approx(math.log(2))
    assert (row["detector"], row["detector_behind"]) == (0.6, pytest.approx(0.3)) and row["detector_knows"] == 1
    assert row["side"] == pytest.approx(math.sqrt(100 / 1200))
    assert row["animal"] == 1 and row["person"] == row["several"] == row["rivals"] == 0


def test_the_heat_map_of_a_word_is_a_feature_and_no_class() -> None:
    row = features(place(ranked([[0.6, 0.5, 0, 0]], [2, 0, 2, 2], [0.3, 0.9, 0.4, 0]), [phrase("dog")], [[0]])[0])
    assert (row["word"], row["word_behind"]) == (0.3, pytest.approx(0.1))
    assert (row["detector"], row["detector_behind"]) == (0, 0)


def test_a_rival_is_another_thing_of_the_caption_with_the_same_noun() -> None:
    named = [phrase("man", 0, 0), phrase("man", 0, 9), phrase("dog", 0, 20)]
    found = place(ranked([[0.8, 0.3, 0, 0]] * 3), named, [[0], [1], [2]])
    assert [features(one)["rivals"] for one in found] == [pytest.approx(math.log(2))] * 2 + [0]
