"""Plural nouns are in the box around their things."""

from __future__ import annotations

import numpy as np
import pytest

from groundling.inference.pointing import GROUP, means_several, with_groups

LEFT, RIGHT, BOTH = [0, 0, 10, 10], [20, 0, 30, 10], [0, 0, 30, 10]
BOXES = np.array([LEFT, RIGHT, BOTH, [1, 0, 10, 10]], np.float32)
FRAME = np.zeros(4, np.int64)


def test_two_likely_places_raise_the_box_around_them() -> None:
    """The two places share a third of the box around them each: (1 − G) · 0.4 + G / 3 and (1 − G) · 0.3 + G · 1."""
    p, found = np.array([[0.4, 0.3, 0.1, 0.2]]), np.array([[0.4, 0.4, 0.3, 0.4]])
    grouped = with_groups(found, p, BOXES, FRAME, [True])
    keep = 1 - GROUP
    expected = [keep * 0.4 + GROUP / 3, keep * 0.4 + GROUP / 3, keep * 0.3 + GROUP, keep * 0.4 + GROUP * 0.3]
    np.testing.assert_allclose(grouped[0], expected)
    assert grouped[0].argmax() == 2
    np.testing.assert_array_equal(found, [[0.4, 0.4, 0.3, 0.4]])  # as it was


@pytest.mark.parametrize(
    "p",
    [
        [0.7, 0.1, 0.1, 0.1],  # the second place has 1/7, less than SHARE
        [0.5, 0.1, 0.0, 0.4],  # the likely ones are one place: an IoU of 0.9
    ],
)
def test_a_single_place_changes_nothing(p: list[float]) -> None:
    found = np.array([[0.9, 0.2, 0.3, 0.8]])
    np.testing.assert_array_equal(with_groups(found, np.array([p]), BOXES, FRAME, [True]), found)


def test_a_singular_noun_changes_nothing_and_rows_do_not_mix() -> None:
    p, found = np.full((2, 4), 0.25), np.full((2, 4), 0.5)
    grouped = with_groups(found, p, BOXES, FRAME, [False, True])
    np.testing.assert_array_equal(grouped[0], found[0])
    assert grouped[1].argmax() == 2


def test_each_frame_of_a_clip_has_places_of_its_own() -> None:
    """One place in each of two frames: nothing lies around both."""
    p, found = np.array([[0.5, 0.5, 0.0, 0.0]]), np.array([[0.5, 0.5, 0.1, 0.1]])
    np.testing.assert_array_equal(with_groups(found, p, BOXES, np.array([0, 1, 1, 0]), [True]), found)


@pytest.mark.parametrize("copies", [1, 2, 4, 8])
def test_a_frame_that_is_repeated_gives_the_same_choice(copies: int) -> None:
    """Probabilities are of the whole clip: each of k equal frames has 1/k of them, and so has its group."""
    p, found = np.array([[0.5, 0.4, 0.1, 0.0]]), np.array([[0.9, 0.4, 0.2, 0.8]])
    alone = with_groups(found, p, BOXES, FRAME, [True])
    tiled = [np.tile(x, copies) / copies for x in (found, p)]
    clip = with_groups(*tiled, np.tile(BOXES, (copies, 1)), np.repeat(np.arange(copies), 4), [True])
    np.testing.assert_allclose(clip, np.tile(alone, copies) / copies)


@pytest.mark.parametrize(
    "noun", ["dogs", "Dogs", "men", "firemen", "people", "children", "fire hydrants", "group", "teeth", "leaves"]
)
def test_plural_nouns(noun: str) -> None:
    assert means_several(noun)


@pytest.mark.parametrize(
    "noun",
    [
        "dog",
        "Dog",
        "man's",
        "wii",
        "graffiti",
        "mozzarella",
        "bus",
        "grass",
        "tennis",
        "shorts",
        "scissors",
        "sunglasses",
        "feet",
        "dress",
        "",
        " ",
    ],
)
def test_nouns_of_one_thing(noun: str) -> None:
    assert not means_several(noun)
