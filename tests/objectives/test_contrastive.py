from __future__ import annotations

import math

import pytest
import torch

from groundling.objectives.contrastive import false_pairs, margin, true_pairs


def test_a_target_like_its_reference_pays_log_2_for_every_pair() -> None:
    """G = 0, ν = 1: h = 1/2, so −ln h = −ln(1 − h) = ln 2."""
    same = torch.zeros(3, 2)
    assert true_pairs(same).item() == pytest.approx(math.log(2))
    assert false_pairs(same).item() == pytest.approx(math.log(2))


def test_values_by_hand() -> None:
    """G = ln 3: h = 1 / (1 + 1/3) = 3/4 with ν = 1, and 1 / (1 + 3/3) = 1/2 with ν = 3; G = 0: 1/2."""
    ratio = torch.tensor([math.log(3), 0.0])
    assert true_pairs(ratio).item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    assert false_pairs(ratio).item() == pytest.approx((math.log(4) + math.log(2)) / 2)
    assert true_pairs(ratio[:1], nu=3).item() == pytest.approx(math.log(2))
    assert false_pairs(ratio[:1], nu=3).item() == pytest.approx(math.log(2))


def test_easy_pairs_weigh_little_and_mistaken_ones_up_to_one() -> None:
    """∂(−ln h)/∂G = −(1 − h) and ∂(−ln(1 − h))/∂G = h: saturated by the logistic function, as eq. 9 is made for."""
    ratio = torch.tensor([-50.0, 0.0, 50.0], requires_grad=True)
    (g,) = torch.autograd.grad(3 * true_pairs(ratio), ratio)
    torch.testing.assert_close(g, torch.tensor([-1.0, -0.5, 0.0]))
    (g,) = torch.autograd.grad(3 * false_pairs(ratio), ratio)
    torch.testing.assert_close(g, torch.tensor([0.0, 0.5, 1.0]))


def test_gradients_against_finite_differences() -> None:
    torch.manual_seed(0)
    ratio = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (true_pairs(x, 2.0), false_pairs(x, 2.0)), ratio)
    other, where = (
        torch.randn(5, dtype=torch.float64, requires_grad=True),
        torch.tensor([True, True, False, True, True]),
    )
    assert torch.autograd.gradcheck(lambda own, other: margin(own, other, where, 1.0), (ratio, other))


def test_captions_that_the_reference_finds_impossible_stay_finite() -> None:
    far = torch.tensor([-1e4, 1e4])
    assert true_pairs(far).item() == pytest.approx(5e3)
    assert false_pairs(far).item() == pytest.approx(5e3)


def test_the_margin_asks_nothing_once_it_is_kept() -> None:
    """ln p(c | I) = −2, −5 and ln p(c | I') = −4, −4, M = 1: max(0, 1 + 2 − 4) = 0 and 1 + 5 − 4 = 2; mean 1."""
    own, other = torch.tensor([-2.0, -5.0, -9.0]), torch.tensor([-4.0, -4.0, 0.0])
    assert margin(own, other, torch.tensor([True, True, False]), 1.0).item() == pytest.approx(1.0)
    assert margin(own, other, torch.zeros(3, dtype=torch.bool), 1.0) == 0
