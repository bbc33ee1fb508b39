from __future__ import annotations

import torch
from torch import Tensor

from groundling.objectives.attention_kl import attention_kl

ALL = torch.tensor([[True]])


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).softmax(-1)


def test_kl_of_a_sure_teacher_and_an_undecided_pupil_is_log_2() -> None:
    """p = (1, 0), q = (1/2, 1/2): KL = 1 log(1 / (1/2)) + 0 = log 2."""
    p, q = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.5, 0.5]]])
    torch.testing.assert_close(attention_kl(p, q, ALL), torch.tensor(2.0).log())


def test_kl_has_a_direction() -> None:
    """p = (1/4, 3/4), q = (1/2, 1/2): KL(p‖q) = 1/4 log 1/2 + 3/4 log 3/2, KL(q‖p) = 1/2 log 2 + 1/2 log 2/3."""
    p, q = torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[0.5, 0.5]]])
    half, third = torch.tensor(0.5).log(), torch.tensor(1.5).log()
    torch.testing.assert_close(attention_kl(p, q, ALL), 0.25 * half + 0.75 * third)
    torch.testing.assert_close(attention_kl(q, p, ALL), -0.5 * half - 0.5 * third)


def test_only_the_chosen_words_count_and_regions_that_nobody_looks_at_add_nothing() -> None:
    torch.manual_seed(0)
    p, q, where = draw(2, 3, 4), draw(2, 3, 4), torch.tensor([[True, False, True], [False, False, True]])
    whole = attention_kl(p, q, where)
    one_by_one = [attention_kl(p[n, t][None, None], q[n, t][None, None], ALL) for n, t in where.nonzero().tolist()]
    torch.testing.assert_close(whole, torch.stack(one_by_one).mean())
    nothing = torch.zeros(2, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(attention_kl(torch.cat([p, nothing], 2), torch.cat([q, nothing], 2), where), whole)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(attention_kl(p[..., order], q[..., order], where), whole)


def test_gradients_are_right_in_both_arguments() -> None:
    torch.manual_seed(0)
    logits, other = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    where = torch.tensor([[True, False, True], [True, True, False]])
    assert torch.autograd.gradcheck(lambda a, b: attention_kl(a.softmax(-1), b.softmax(-1), where), (logits, other))


def test_a_region_that_is_padding_for_both_has_a_gradient_of_zero_and_not_nan() -> None:
    p = torch.tensor([[[0.3, 0.7, 0.0]]], requires_grad=True)
    q = torch.tensor([[[0.6, 0.4, 0.0]]], requires_grad=True)
    grads = torch.autograd.grad(attention_kl(p, q, ALL), (p, q))
    assert all(grad.isfinite().all() for grad in grads)
    assert grads[0][0, 0, 2] == grads[1][0, 0, 2] == 0


def test_a_pupil_who_is_sure_of_the_wrong_region_still_learns() -> None:
    """At q = softmax(z), ∂KL(p‖q)/∂z = q − p, however small q is."""
    z = torch.tensor([[[60.0, 0.0]]], requires_grad=True)
    (grad,) = torch.autograd.grad(attention_kl(torch.tensor([[[0.0, 1.0]]]), z.softmax(-1), ALL), z)
    torch.testing.assert_close(grad, torch.tensor([[[1.0, -1.0]]]))
