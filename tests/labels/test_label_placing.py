"""Where the things of an image are."""

from __future__ import annotations

import numpy as np
from labelled_photos import phrase

from groundling.labels.grounder import Ranked
from groundling.labels.placing import place

BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [0, 0, 11, 10]], float)


def ranked(overlap: list[list[float]], classes: list[int] | None = None, sure: list[float] | None = None) -> Ranked:
    scores = np.array(overlap)
    evidence = tuple(0.9 for _ in overlap)
    known = np.array(classes or [-1] * 4)
    return Ranked(BOXES, scores, scores, evidence, (60, 20), known, np.array(sure or [0.0] * 4))


def test_a_thing_is_where_all_its_phrases_together_say() -> None:
    """Means 0.35 and 0.5: the second region, though the first phrase prefers the first."""
    found = place(ranked([[0.6, 0.5, 0, 0], [0.1, 0.5, 0, 0]]), [phrase("dog", 0), phrase("dog", 1)], [[0, 1]])
    assert found[0].boxes == ((20, 0, 30, 10),)
    assert found[0].scores == (0.5,)
    assert found[0].evidence == 0.9


def test_two_men_of_one_caption_get_two_boxes() -> None:
    """The less sure one may take neither the box of the other nor one that is nearly the same (region 3)."""
    said = [phrase("man", 0, 0), phrase("man", 0, 9)]
    found = place(ranked([[0.8, 0.3, 0, 0.7], [0.9, 0.4, 0, 0.8]]), said, [[0], [1]])
    assert [one.boxes[0] for one in found] == [(20, 0, 30, 10), (0, 0, 10, 10)]


def test_different_nouns_may_share_a_box() -> None:
    said = [phrase("snow", 0, 0), phrase("mountain", 0, 9)]
    found = place(ranked([[0.8, 0.3, 0, 0], [0.9, 0.4, 0, 0]]), said, [[0], [1]])
    assert [one.boxes[0] for one in found] == [(0, 0, 10, 10)] * 2


def test_a_plural_phrase_gets_the_instances_that_the_detector_sees() -> None:
    """Regions 0, 1 and 3 are dogs, 3 being the same as 0; region 2 is a cat."""
    scores = ranked([[0.2, 0.5, 0.9, 0.1]], [1, 1, 0, 1], [0.9, 0.8, 0.9, 0.7])
    found = place(scores, [phrase("dog", count=6)], [[0]], ["cat", "dog"])
    assert found[0].boxes == ((20, 0, 30, 10), (0, 0, 10, 10))
    assert found[0].scores == (0.5, 0.2)


def test_two_dogs_are_no_more_than_two() -> None:
    scores = ranked([[0.2, 0.5, 0.3, 0.1]], [1, 1, 1, 1], [0.9, 0.8, 0.7, 0.6])
    assert len(place(scores, [phrase("dog", count=2)], [[0]], ["cat", "dog"])[0].boxes) == 2


def test_a_plural_phrase_without_instances_gets_its_best_box() -> None:
    scores = ranked([[0.2, 0.5, 0.9, 0.1]], [1, 0, 0, 0], [0.9, 0.8, 0.9, 0.7])
    assert place(scores, [phrase("dog", count=6)], [[0]], ["cat", "dog"])[0].boxes == ((40, 0, 50, 10),)
