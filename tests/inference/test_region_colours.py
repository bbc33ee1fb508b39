"""Colours of regions: shares of pixels, and what they do where a phrase names one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from groundling import inference
from groundling.inference.colours import (
    COEFFICIENTS,
    LEAST,
    USUAL,
    WEIGHT,
    colour_fit,
    colour_names,
    colour_shares,
    has_colour,
)
from groundling.inference.inputs import with_pixels
from groundling.regions.media import of_frames
from groundling.tensors import Regions
from groundling.text.colours import COLOURS

LEFT, RIGHT = (0.0, 0.0, 100.0, 100.0), (100.0, 0.0, 200.0, 100.0)


def halves() -> Image.Image:
    picture = Image.new("RGB", (200, 100), (220, 20, 20))
    picture.paste((20, 40, 220), (100, 0, 200, 100))
    return picture


def regions(dim: int = 4) -> Regions:
    """Two regions of which only the place differs, so nothing but their pixels tells them apart."""
    return Regions.of(torch.ones(2, dim), torch.tensor([LEFT, RIGHT]), (200, 100))


def shares_in(picture: Image.Image) -> np.ndarray:
    return colour_shares(picture, np.array([LEFT, RIGHT], np.float32), (200, 100))


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ((0, 0, 0), "black"),
        ((255, 255, 255), "white"),
        ((128, 128, 128), "gray"),
        ((110, 70, 40), "brown"),
        ((210, 180, 140), "tan"),
        ((220, 20, 20), "red"),
        ((255, 130, 0), "orange"),
        ((250, 230, 20), "yellow"),
        ((30, 160, 40), "green"),
        ((20, 40, 220), "blue"),
        ((120, 30, 200), "purple"),
        ((255, 105, 180), "pink"),
    ],
)
def test_colours_have_the_names_that_people_give_them(rgb: tuple[int, int, int], name: str) -> None:
    assert COLOURS[colour_names(Image.new("RGB", (2, 2), rgb))[0, 0]] == name


def test_shares_are_those_of_the_middle_of_a_region() -> None:
    """Of a region that is red but for an edge of a tenth, all of the middle is red."""
    picture = Image.new("RGB", (200, 100), "white")
    picture.paste((220, 20, 20), (10, 10, 90, 90))
    shares = shares_in(picture)
    assert shares.shape == (2, len(COLOURS))
    assert shares[0, COLOURS.index("red")] == 1 and shares[1, COLOURS.index("white")] == 1
    np.testing.assert_allclose(shares.sum(-1), 1)


def test_shares_do_not_depend_on_the_size_of_the_picture() -> None:
    large, small = (shares_in(halves().resize(size)) for size in ((1600, 800), (40, 20)))
    np.testing.assert_array_equal(large, small)


def test_a_region_fits_a_colour_by_the_logarithm_of_its_share() -> None:
    fit = colour_fit(shares_in(halves()), [["red"], [], ["red", "blue"]])
    full, none = WEIGHT * math.log(1 + LEAST), WEIGHT * math.log(LEAST)
    np.testing.assert_allclose(fit, [[full, none], [0, 0], [full + none, full + none]], atol=1e-6)


def test_of_two_things_that_are_alike_the_colour_decides(looking: Path) -> None:
    grounder = inference.load_grounder(looking)
    two = with_pixels(regions(grounder.model.layout.dim), halves())
    red, blue = grounder.ground_regions(two, "a red ball and a blue ball")
    assert (red.box, blue.box) == (LEFT, RIGHT)
    [worn] = grounder.ground_regions(two, phrases=["blue ball"])
    assert worn.box == RIGHT
    assert red.evidence == blue.evidence  # whether a thing is there at all is not a matter of colour


def test_without_pixels_nothing_changes(looking: Path) -> None:
    grounder = inference.load_grounder(looking)
    plain = regions(grounder.model.layout.dim)
    asked = [["red", "ball"]]
    assert torch.equal(grounder.rank(plain, asked).overlap, grounder.rank(plain, asked, [["red"]]).overlap)


def test_each_image_of_a_batch_keeps_its_picture() -> None:
    """Also of its first regions; a batch with an image whose pixels are not known has none, as a clip has none."""
    red, blue = (with_pixels(regions(), Image.new("RGB", (8, 4), name)) for name in ("red", "blue"))
    both = Regions.stack([red, blue])
    assert [one.getpixel((0, 0)) for one in both.first(1).pictures or ()] == [(255, 0, 0), (0, 0, 255)]
    [second] = both.only(1).pictures or ()
    assert second.getpixel((0, 0)) == (0, 0, 255) and len(both.only(1)) == 1
    assert Regions.stack([red, regions()]).pictures is None and both.only(0)[0:1].pictures is None
    assert of_frames([red, blue]).pictures is None


def test_the_copy_of_a_picture_is_small() -> None:
    [large] = with_pixels(regions(), Image.new("L", (2000, 10))).pictures or ()
    assert (large.mode, large.size) == ("RGB", (320, 2))
    [small] = with_pixels(regions(), halves()).pictures or ()
    assert small.size == (200, 100)


def test_whether_a_thing_has_a_colour_is_the_equation() -> None:
    """The left half is red, the right blue; the thing is in the left one with 3/4: q = 3/4 of red, 1/4 of blue. A word
    that is as likely as in any photo tells nothing; one that is likelier is evidence for its colour."""
    shares, weights = shares_in(halves()), np.array([0.75, 0.25], np.float32)
    a, b, c = COEFFICIENTS
    x = a + b * math.log((0.75 + LEAST) / (USUAL["red"] + LEAST))
    assert has_colour(shares, weights, "red", 0.1, 0.1) == pytest.approx(1 / (1 + math.exp(-x)), abs=1e-5)
    x += c * (math.log(0.5 / 0.5) - math.log(0.1 / 0.9))
    assert has_colour(shares, weights, "red", 0.5, 0.1) == pytest.approx(1 / (1 + math.exp(-x)), abs=1e-5)
    assert has_colour(shares, weights, "green", 0.1, 0.1) < 0.3 < has_colour(shares, weights, "blue", 0.1, 0.1)
