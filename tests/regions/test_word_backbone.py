"""Words of cells and of images, and how well boxes cover heat maps: by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from groundling.regions.sources._features import Projection, absence, soft_iou
from groundling.regions.sources._photos_files import CELLS
from groundling.regions.sources._pooling import cell_shares


def test_an_image_has_a_word_unless_no_cell_has_it() -> None:
    """48 cells, one of them sure to a half, the others without the word: p = 1/2, −log(1 − p) = log 2."""
    cells = torch.full((CELLS, 1), -50.0)
    cells[7] = 0.0
    torch.testing.assert_close(absence(cells), torch.tensor([math.log(2)]))


def test_a_finer_map_of_the_same_photo_says_the_same() -> None:
    cells = torch.randn(CELLS, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(absence(cells), absence(cells.repeat_interleave(4, 0)))


def test_the_share_of_each_cell_inside_a_box() -> None:
    """A map of 2 x 2 cells; a box over the upper left quarter and half of the cell to its right."""
    shares = cell_shares(np.array([[0, 0, 0.75, 0.5]], np.float32), 2, 2)
    np.testing.assert_allclose(shares, [[1, 0.5, 0, 0]])


def test_soft_iou_of_a_sure_heat_map_is_the_iou() -> None:
    """Heat in two of four cells; boxes over one of them, both, all, and one elsewhere: 1/2, 1, 1/2, 0."""
    heat = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
    boxes = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]])
    torch.testing.assert_close(soft_iou(boxes, heat), torch.tensor([[0.5], [1.0], [0.5], [0.0]]))


@pytest.mark.parametrize("size", [1, 3])
def test_a_projection_takes_the_mean_away_first(size: int) -> None:
    projection = Projection(torch.ones(4), torch.eye(4)[:, :size])
    np.testing.assert_allclose(projection(np.full((2, 4), 3.0, np.float32)), np.full((2, size), 2.0))
