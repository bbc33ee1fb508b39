"""Where clothes are on a person: by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from groundling.inference.bodies import PARTS
from groundling.inference.colours import colour_fit, colour_shares
from groundling.inference.garments import GARMENTS, WEIGHT, any_garment, garment_fit, legs, upper_body
from groundling.inference.phrases import TEMPERATURE, Cues, with_cues

FULL = np.array([[10, 0, 50, 100]], np.float32)  # 40 wide, 100 high: a head of 0.4 · 40 = 16
PORTRAIT = np.array([[0, 0, 100, 100]], np.float32)  # a head of 40


def test_the_parts_of_a_full_figure_by_hand() -> None:
    """The chin is at 0.9 · 16 = 14.4, the upper body 32 high; the hip is at 2.7 · 16 = 43.2."""
    np.testing.assert_allclose(upper_body(FULL), [[12, 14.4, 48, 46.4]], rtol=1e-6)
    np.testing.assert_allclose(legs(FULL), [[14, 43.2, 46, 100]], rtol=1e-6)


def test_a_portrait_ends_where_the_picture_of_the_person_does() -> None:
    np.testing.assert_allclose(upper_body(PORTRAIT), [[5, 36, 95, 100]], rtol=1e-6)
    np.testing.assert_allclose(legs(PORTRAIT), [[10, 60, 90, 100]], rtol=1e-6)


@pytest.mark.parametrize("box, head", [((0, 0, 10, 100), 12), ((0, 0, 100, 40), 24)])
def test_a_head_has_a_plausible_share_of_the_height(box: tuple[int, ...], head: float) -> None:
    """0.4 of the width would be 4 (below 0.12 of the height), and 40 (above 0.6)."""
    assert upper_body(np.array([box], np.float32))[0, 1] == pytest.approx(0.9 * head)


def test_a_region_fits_as_it_covers_the_part_of_the_likeliest_person() -> None:
    boxes = np.concatenate([FULL, upper_body(FULL), legs(FULL), [[80, 14.4, 116, 46.4]]]).astype(np.float32)
    person = np.array([0.5, 0, 0, 0], np.float32)
    fit = garment_fit(boxes, np.zeros(4, int), ["shirt", "dog", "jeans"], person, temperature=0.05)
    both = 32 * 3.2  # of the upper body, 36 · 32, and the legs, 32 · 56.8
    assert fit[:, 1] == pytest.approx([WEIGHT, 0, WEIGHT * both / (36 * 32 + 32 * 56.8 - both)], rel=1e-3)
    assert fit[0].argmax() == 1 and fit[2].argmax() == 2 and not fit[1].any()
    assert fit[0, 3] == pytest.approx(0, abs=1e-3)  # where nobody is


def test_as_many_persons_as_likely_count_alike() -> None:
    two = np.concatenate([FULL, FULL + [60, 0, 60, 0], upper_body(FULL), upper_body(FULL + [60, 0, 60, 0])])
    person = np.array([1, 1, 0, 0], np.float32)
    fit = garment_fit(two.astype(np.float32), np.zeros(4, int), ["coat"], person, 0.01)
    assert fit[0, 2] == pytest.approx(WEIGHT) and fit[0, 3] == pytest.approx(WEIGHT)


def test_a_person_of_another_frame_wears_nothing_here() -> None:
    boxes = np.concatenate([FULL, upper_body(FULL), upper_body(FULL)]).astype(np.float32)
    fit = garment_fit(boxes, np.array([0, 0, 1]), ["shirt"], np.array([1, 0, 0], np.float32), 0.01)
    assert fit[0].tolist() == pytest.approx([fit[0, 0], WEIGHT, 0], abs=1e-6)


def test_one_and_several_of_a_garment_are_alike() -> None:
    assert GARMENTS["shirt"] is GARMENTS["shirts"] and GARMENTS["jeans"] is GARMENTS["skirts"]
    assert any_garment(["dog", "shirt"]) and not any_garment(["dog", "hat", "top", "trunks"])


def test_cues_are_computed_only_for_phrases_that_need_them() -> None:
    """A colour needs pixels, a garment where persons are; each adds what its own function gives."""
    similarity = np.array([[0.3, 0.1]], np.float32)
    boxes, frame = np.array([[0, 0, 10, 20], [0, 5, 10, 12]], np.float32), np.zeros(2, np.int64)
    person, size, picture = np.array([0.5, 0.0], np.float32), (10, 20), Image.new("RGB", (10, 20), "red")
    computed: list[str] = []

    def persons() -> np.ndarray:
        computed.append("person")
        return person

    cues = Cues(boxes, frame, size, picture, True, persons)
    assert with_cues(similarity, cues, ["dog"], [[]])[1] is similarity
    _, red = with_cues(similarity, cues, ["dog"], [["red"]])
    np.testing.assert_allclose(red, similarity + colour_fit(colour_shares(picture, boxes, size), [["red"]]))
    assert not computed
    unseen = replace(cues, picture=None)
    every, shirt = with_cues(similarity, unseen, ["shirt"], [["red"]])
    np.testing.assert_allclose(shirt, similarity + garment_fit(boxes, frame, ["shirt"], person, TEMPERATURE))
    assert computed == ["person"] and not np.allclose(shirt, similarity) and every is boxes
    for blind in (replace(cues, person=None), replace(unseen, person=None)):  # it does not know the word "person"
        assert with_cues(similarity, blind, ["shirt"], [[]])[1] is similarity


def test_what_is_worn_is_also_looked_for_by_joints() -> None:
    assert GARMENTS.keys() <= PARTS.keys()
