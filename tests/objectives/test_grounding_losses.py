from __future__ import annotations

import math

import torch

from groundling.objectives.distill import distill, soft_labels
from groundling.objectives.max_margin import max_margin
from groundling.objectives.nce import nce

OWN = torch.tensor([0, 1])


def test_nce_of_equal_scores_is_the_log_of_the_number_of_images() -> None:
    torch.testing.assert_close(nce(torch.zeros(2, 3), OWN, 0.5), torch.tensor(3.0).log())


def test_nce_by_hand() -> None:
    """S = (1, 0), τ = 1/2: −log e² / (e² + 1); the other sentence, (0, 0), has log 2."""
    scores = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    expected = (-math.log(math.exp(2) / (math.exp(2) + 1)) + math.log(2)) / 2
    torch.testing.assert_close(nce(scores, OWN, 0.5), torch.tensor(expected))


def test_max_margin_by_hand() -> None:
    """m = 1. S = (2, 0.5, 1.5), own first: [1 − 2 + 0.5]₊ + [1 − 2 + 1.5]₊ = 0.5. S = (0, 0, 0): 1 + 1. Mean 1.25."""
    scores = torch.tensor([[2.0, 0.5, 1.5], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(max_margin(scores, OWN, 1.0), torch.tensor(1.25))


def test_soft_labels_are_a_softmax_over_the_valid_regions() -> None:
    """(0.02 log 3, 0, ·) at T = 0.02 is (3, 1) / 4; a row without regions is 0."""
    evidence = torch.tensor([[0.02 * math.log(3), 0.0, 9.0], [1.0, 1.0, 1.0]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    torch.testing.assert_close(soft_labels(evidence, valid, 0.02), torch.tensor([[0.75, 0.25, 0], [0, 0, 0]]))


def test_distillation_by_hand() -> None:
    """ĥ = (1/2, 1/2), p̂ = (3/4, 1/4): the cross entropy is log 2; the phrase that is left out counts nothing."""
    scores = torch.tensor([[1.0, 1.0, 7.0], [0.0, 5.0, 0.0]])
    target = torch.tensor([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    found = distill(scores, target, valid, torch.tensor([True, False]), 0.5)
    torch.testing.assert_close(found, torch.tensor(2.0).log())


def test_padding_regions_change_neither_distillation_nor_its_gradient() -> None:
    scores = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    target, every = torch.tensor([[0.5, 0.5, 0], [0, 0, 1.0]]).double(), torch.ones(2, dtype=torch.bool)
    plain = distill(scores, target, torch.ones(2, 3, dtype=torch.bool), every, 0.1)
    more = torch.cat([scores, torch.full((2, 2), 99.0).double()], 1)
    valid = torch.tensor([[True] * 3 + [False] * 2] * 2)
    padded = distill(more, torch.cat([target, torch.zeros(2, 2).double()], 1), valid, every, 0.1)
    torch.testing.assert_close(padded, plain)
    torch.testing.assert_close(torch.autograd.grad(padded, scores)[0], torch.autograd.grad(plain, scores)[0])


def test_a_phrase_without_regions_has_a_finite_gradient() -> None:
    scores = torch.zeros(1, 2, requires_grad=True)
    none = torch.zeros(1, 2, dtype=torch.bool)
    loss = distill(scores, soft_labels(torch.ones(1, 2), none, 0.1), none, torch.tensor([True]), 0.1)
    loss.backward()
    assert loss == 0
    assert scores.grad is not None and (scores.grad == 0).all()


def test_gradients() -> None:
    scores = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    target = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0, 0]]).double()
    every, both = torch.ones(2, 3, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda s: nce(s, OWN, 0.5), scores)
    assert torch.autograd.gradcheck(lambda s: max_margin(s, OWN, 0.7), scores)
    assert torch.autograd.gradcheck(lambda s: distill(s, target, every, both, 0.5), scores)
