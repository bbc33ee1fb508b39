"""The triplet loss with the hardest rivals."""

from __future__ import annotations

import pytest
import torch

from groundling.objectives.triplet import hardest, triplet

SCORES = torch.tensor([[0.9, 0.8, 0.3, 0.5], [0.7, 0.1, 0.6, 0.2], [0.2, 0.4, 0.5, 0.9]])
IMAGE_OF = torch.tensor([0, 0, 1, 2])


def test_rivals_are_the_best_of_other_images_and_never_captions_of_the_same() -> None:
    """Image 0 fits its own 0 and 1 best, then 3; image 1 fits 0 best; image 2 fits its own 3 best, then 2."""
    caption, image = hardest(SCORES, IMAGE_OF)
    assert caption.tolist() == [3, 3, 0, 2]
    assert image.tolist() == [1, 2, 2, 0]


def test_the_loss_by_hand() -> None:
    """m = 0.2. Caption 0: [0.2 − 0.9 + 0.5]₊ + [0.2 − 0.9 + 0.7]₊ = 0 + 0; caption 1: 0 + 0; caption 2:
    [0.2 − 0.6 + 0.7]₊ + [0.2 − 0.6 + 0.5]₊ = 0.3 + 0.1; caption 3: 0 + 0. Mean 0.4 / 4; over the last two 0.4 / 2."""
    caption, image = hardest(SCORES, IMAGE_OF)
    n = torch.arange(4)
    fits = SCORES[IMAGE_OF, n], SCORES[IMAGE_OF, caption], SCORES[image, n]
    assert float(triplet(*fits, torch.ones(4, dtype=torch.bool), 0.2)) == pytest.approx(0.1)
    assert float(triplet(*fits, torch.tensor([False, False, True, True]), 0.2)) == pytest.approx(0.2)
    assert float(triplet(*fits, torch.zeros(4, dtype=torch.bool), 0.2)) == 0


def test_gradients_are_those_of_differences() -> None:
    fits = tuple(x.double().requires_grad_() for x in torch.tensor([[0.9, 0.6], [0.5, 0.7], [0.75, 0.5]]))
    where = torch.tensor([True, True])
    assert torch.autograd.gradcheck(lambda own, caption, image: triplet(own, caption, image, where, 0.2), fits)
