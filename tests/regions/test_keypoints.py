"""MoveNet's joints: the crop and the search by hand, then the network on a photo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import groundling
from groundling.images import open_image
from groundling.regions.sources._keypoints import CELLS, KEYPOINTS, MARGIN, NEAR, crops, decode, keypoints

PHOTOS = Path(groundling.__file__).parent / "serve" / "photos"
ASTRONAUT = {"nose": (225, 125), "left eye": (245, 103), "right eye": (203, 101), "right shoulder": (90, 250)}


def test_a_crop_is_the_square_around_a_person_with_a_margin() -> None:
    corner, side = crops(np.array([[10, 20, 30, 100], [0, 0, 8, 4]], np.float32))
    np.testing.assert_allclose(side, [80 * MARGIN, 8 * MARGIN])
    np.testing.assert_allclose(corner, [[20 - 50, 60 - 50], [4 - 5, 2 - 5]])


def test_a_joint_is_searched_where_the_person_in_the_middle_expects_it() -> None:
    """Two persons: one in the middle, one at the edge whose scores are higher. The point of the one in the middle, 4
    cells above it, wins over the higher one far away; it lies half a cell right and a quarter down in its cell."""
    count = len(KEYPOINTS)
    points, middle = (np.zeros((1, n, CELLS, CELLS), np.float32) for n in (count, 1))
    towards, within = (np.zeros((1, 2 * count, CELLS, CELLS), np.float32) for _ in range(2))
    middle[0, 0, 24, 24], middle[0, 0, 40, 40] = 0.5, 0.9
    towards[0, ::2] = -4  # y before x
    points[0, :, 20, 24], points[0, :, 36, 40] = 0.4, 0.9
    within[0, ::2], within[0, 1::2] = 0.25, 0.5
    far = float(np.hypot(16, 16))
    assert 0.9 / (far + NEAR) < 0.5 / NEAR and 0.9 / (far + NEAR) < 0.4 / NEAR
    found = decode(points, middle, towards, within)
    assert found.shape == (1, count, 3)
    np.testing.assert_allclose(found[0], [[24.5 / CELLS, 20.25 / CELLS, 0.4]] * count, rtol=1e-6)


def test_joints_of_a_photo_are_where_people_see_them() -> None:
    picture = np.asarray(open_image(PHOTOS / "astronaut.jpg"))
    height, width = picture.shape[:2]
    [found] = keypoints()(picture, np.array([[0, 0, width, height]], np.float32))
    for name, at in ASTRONAUT.items():
        x, y, score = found[KEYPOINTS.index(name)]
        assert np.hypot(x - at[0], y - at[1]) < 15 and score > 0.5, name


def test_joints_move_with_the_person() -> None:
    """In a larger picture, with another person's box beside it, the joints are shifted and no others."""
    picture = np.asarray(open_image(PHOTOS / "astronaut.jpg"))
    box = np.array([[0, 0, *picture.shape[1::-1]]], np.float32)
    around = np.zeros((700, 800, 3), np.uint8)
    around[100:612, 200:712] = picture
    there = box + np.array([200, 100, 200, 100], np.float32)
    [alone] = keypoints()(picture, box)
    both = keypoints()(around, np.concatenate([there, box]))
    np.testing.assert_allclose(both[0, :, :2] - [200, 100], alone[:, :2], atol=0.5)
    assert len(both) == 2


@pytest.mark.parametrize("size", [(40, 30), (1, 1)])
def test_no_person_and_small_pictures(size: tuple[int, int]) -> None:
    picture = np.zeros((*size, 3), np.uint8)
    assert keypoints()(picture, np.zeros((0, 4), np.float32)).shape == (0, len(KEYPOINTS), 3)
    assert np.isfinite(keypoints()(picture, np.array([[0, 0, 1, 1], [5, 5, 5, 5]], np.float32))).all()
