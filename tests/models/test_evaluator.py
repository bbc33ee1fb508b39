"""The evaluator of a captioning GAN."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from groundling.models.evaluator import Evaluator
from groundling.types import EOS, PAD

WORDS = torch.tensor([[5, 6, EOS, PAD, PAD], [7, 5, 8, 9, EOS], [4, EOS, PAD, PAD, PAD]])
IMAGE_OF = torch.tensor([0, 1, 1])


def evaluator(whole: int = 0) -> Evaluator:
    torch.manual_seed(0)
    return Evaluator(tiny.VOCAB, tiny.DIM, whole, hidden=6, embed=4).double()


def test_it_is_the_product_of_the_image_and_the_last_state() -> None:
    """Of the mean of the regions; divided by the root of the size."""
    model, seen = evaluator(), tiny.regions(3, 5)
    _, (state, _) = model.lstm(model.embed(WORDS[:1, :3]))
    image = model.image(seen.feats[0, :3].mean(0))
    torch.testing.assert_close(model(seen, WORDS, IMAGE_OF)[0], image @ state[0, 0] / 6**0.5)


def test_one_pair_equals_its_row_in_a_batch_and_padding_changes_nothing() -> None:
    model, seen = evaluator(), tiny.regions(3, 5)
    together = model(seen, WORDS, IMAGE_OF)
    torch.testing.assert_close(model(tiny.regions(3), WORDS[:1, :3], torch.tensor([0])), together[:1])


def test_the_order_of_the_regions_does_not_matter_and_a_vector_of_the_image_is_used_where_there_is_one() -> None:
    model, seen = evaluator(), tiny.regions(5, 5)
    mixed = replace(seen, feats=seen.feats[:, torch.tensor([3, 0, 4, 2, 1])])
    torch.testing.assert_close(model(mixed, WORDS, IMAGE_OF), model(seen, WORDS, IMAGE_OF))
    whole = replace(seen, whole=torch.randn(2, 3).double())
    torch.testing.assert_close(
        evaluator(3)(whole, WORDS, IMAGE_OF), evaluator(3)(replace(whole, feats=0 * seen.feats), WORDS, IMAGE_OF)
    )
    with pytest.raises(ValueError, match="regions.whole"):
        evaluator(3)(seen, WORDS, IMAGE_OF)


def test_gradients_against_finite_differences() -> None:
    model, seen = evaluator(), tiny.regions(3, 5)
    weights = [model.image.weight, model.embed.weight, model.lstm.weight_hh_l0]

    def score(*_: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(seen, WORDS, IMAGE_OF)
        return logits

    assert torch.autograd.gradcheck(score, weights, atol=1e-6)
