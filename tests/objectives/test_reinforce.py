from __future__ import annotations

import torch

from groundling.objectives.reinforce import reinforce


def test_of_two_captions_by_hand() -> None:
    """p = 1/2, 1/4 gained 1; p = 1/2 and padding lost 2:  −(1 (log 1/2 + log 1/4) − 2 log 1/2) / 3 = log 2 / 3."""
    logp = torch.tensor([[0.5, 0.25], [0.5, 1e-9]]).log()
    value = reinforce(logp, torch.tensor([[5, 2], [2, 0]]), torch.tensor([1.0, -2.0]))
    torch.testing.assert_close(value, torch.tensor(2.0).log() / 3)


def test_the_gradient_is_minus_gain_times_that_of_log_p() -> None:
    torch.manual_seed(0)
    z = torch.randn(3, 4, 7, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[4, 5, 2, 0], [6, 2, 0, 0], [4, 4, 5, 6]])
    gain = torch.tensor([0.5, -1.5, 2.0], dtype=torch.float64)
    logp = z.log_softmax(-1).gather(2, tokens[..., None]).squeeze(2) * (tokens != 0)
    (grad,) = torch.autograd.grad(reinforce(logp, tokens, gain), z, retain_graph=True)
    for n in range(3):
        (of_caption,) = torch.autograd.grad(logp[n].sum(), z, retain_graph=True)
        torch.testing.assert_close(grad[n], -gain[n] * of_caption[n] / 9)
    assert torch.autograd.gradcheck(lambda x: reinforce(x, tokens, gain), (logp.detach().requires_grad_(),))


def test_a_caption_that_gains_gets_likelier_and_rewards_are_no_way_back() -> None:
    z = torch.zeros(1, 1, 3, requires_grad=True)
    gain = torch.tensor([1.0], requires_grad=True)
    loss = reinforce(z.log_softmax(-1)[..., 2], torch.tensor([[2]]), gain)
    loss.backward()
    assert z.grad is not None and z.grad[0, 0, 2] < 0 < z.grad[0, 0, 0]
    assert gain.grad is None
