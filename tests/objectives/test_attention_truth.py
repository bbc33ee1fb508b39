from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.attention_truth import (
    attention_cross_entropy,
    attention_nll,
    attention_nll_best,
    softened,
    uniform,
)

ATTN = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
TRUTH = torch.tensor([[[True, True, False], [False, False, False]]])


def attention_to_truth(attn: Tensor, truth: Tensor) -> Tensor:
    return attention_kl(uniform(truth).to(attn.dtype), attn, truth.any(-1))


FORMS = [attention_cross_entropy, attention_nll, attention_to_truth]


def test_values_by_hand() -> None:
    """β = (1/2, 1/4, 1/4), the first two are true; the second word has no true region and does not count.

    CE = log 2 + log 4.  NLL = −log 3/4.  KL = Σ 1/2 log(1/2 / β) = 1/2 log 1 + 1/2 log 2.
    """
    two = torch.tensor(2.0).log()
    torch.testing.assert_close(attention_cross_entropy(ATTN, TRUTH), 3 * two)
    torch.testing.assert_close(attention_nll(ATTN, TRUTH), -torch.tensor(0.75).log())
    torch.testing.assert_close(attention_to_truth(ATTN, TRUTH), two / 2)


def test_the_uniform_distribution_is_over_the_true_regions_alone() -> None:
    torch.testing.assert_close(uniform(TRUTH), torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]]))


@pytest.mark.parametrize("loss", FORMS)
def test_gradients_are_right_and_padding_changes_nothing(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    z = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    truth = torch.rand(2, 3, 4) > 0.5
    truth[0, 1] = False
    assert torch.autograd.gradcheck(lambda x: loss(x.softmax(-1), truth), (z,))
    attn = z.softmax(-1)
    wider = torch.cat([attn, torch.zeros_like(attn)], 2)
    found = loss(wider, torch.cat([truth, torch.zeros_like(truth)], 2))
    torch.testing.assert_close(found, loss(attn, truth))
    (grad,) = torch.autograd.grad(found, z)
    assert grad.isfinite().all() and grad[0, 1].abs().max() == 0


@pytest.mark.parametrize("loss", FORMS)
def test_one_true_region_makes_all_forms_equal(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    truth = torch.tensor([[[False, True, False], [False, False, True]]])
    torch.testing.assert_close(loss(ATTN, truth), -torch.tensor([0.25, 0.8]).log().mean())


@pytest.mark.parametrize("loss", FORMS)
def test_attention_that_is_nowhere_near_the_truth_is_finite(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    attn = torch.tensor([[[0.0, 0.0, 1.0]]], requires_grad=True)
    value = loss(attn, torch.tensor([[[True, False, False]]]))
    (grad,) = torch.autograd.grad(value, attn)
    assert value.isfinite() and value > 50 and grad.isfinite().all()


def test_the_released_nll_is_of_the_one_region_that_fits_best() -> None:
    """IoU (0.6, 0.9, 0.1): the second region, β = 1/4, counts alone: log 4. The word without a true region does not."""
    shared = torch.tensor([[[0.6, 0.9, 0.1], [0.2, 0.0, 0.0]]])
    torch.testing.assert_close(attention_nll_best(ATTN, shared, shared > 0.5), torch.tensor(4.0).log())


def test_the_released_target_of_the_divergence_is_a_softmax_of_iou_over_real_regions() -> None:
    """IoU (1, 1/2) and padding, at 1/2: e² : e : 0."""
    found = softened(torch.tensor([[[1.0, 0.5, 0.0]]]), torch.tensor([[True, True, False]]))
    e = torch.tensor(1.0).exp()
    torch.testing.assert_close(found, torch.stack([e / (e + 1), 1 / (e + 1), torch.tensor(0.0)])[None, None])
