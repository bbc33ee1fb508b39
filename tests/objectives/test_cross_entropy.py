from __future__ import annotations

import torch

from groundling.objectives.cross_entropy import cross_entropy
from groundling.objectives.mean import mean_over


def test_of_three_words_with_probabilities_a_half_a_quarter_and_one_is_log_2() -> None:
    """−(log 1/2 + log 1/4 + log 1) / 3 = (1 + 2 + 0) / 3 log 2; the padding, however unlikely, does not count."""
    logp = torch.tensor([[0.5, 0.25], [1.0, 1e-9]]).log()
    targets = torch.tensor([[5, 2], [2, 0]])
    torch.testing.assert_close(cross_entropy(logp, targets), torch.tensor(2.0).log())


def test_gradient_is_minus_one_over_the_number_of_words_and_zero_on_padding() -> None:
    logp = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[5, 6, 2, 0], [5, 2, 0, 0], [7, 8, 9, 2]])
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets), (logp,))
    (grad,) = torch.autograd.grad(cross_entropy(logp, targets), logp)
    torch.testing.assert_close(grad, torch.where(targets != 0, -1 / 9, 0.0).double())


def test_the_mean_over_nothing_is_zero_with_zero_gradient() -> None:
    values = torch.tensor([float("nan"), float("inf")], requires_grad=True)
    mean = mean_over(values, torch.tensor([False, False]))
    (grad,) = torch.autograd.grad(mean, values)
    assert mean == 0
    assert grad.tolist() == [0, 0]
