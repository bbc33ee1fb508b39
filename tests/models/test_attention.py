"""Additive attention: values by hand, gradients, and what must not matter."""

from __future__ import annotations

import math

import torch
from tiny import regions, updown
from torch import Tensor

from groundling.models.layers import Additive, masked_softmax
from groundling.tensors import EncodedImage


def encoded(memory: Tensor, valid: Tensor, attend: Additive, row: list[int]) -> EncodedImage:
    return EncodedImage(memory, attend.keys(memory), valid, valid.long() * 0, memory.mean(1), torch.tensor(row))


def random_attention(seed: int = 0) -> Additive:
    torch.manual_seed(seed)
    return Additive(3, 4).double()


def test_two_regions_by_hand() -> None:
    """All matrices 1, bias 0: z_i = tanh(v_i + h). v = (1, 0), h = 0: z = (tanh 1, 0), β_1 = σ(tanh 1) = v̂."""
    attend = Additive(1, 1)
    for weight in attend.parameters():
        torch.nn.init.ones_(weight)
    torch.nn.init.zeros_(attend.of_memory.bias)
    seen = encoded(torch.tensor([[[1.0], [0.0]]]), torch.tensor([[True, True]]), attend, [0])
    context, weights = attend(torch.zeros(1, 1), seen)
    first = 1 / (1 + math.exp(-math.tanh(1)))
    torch.testing.assert_close(weights, torch.tensor([[first, 1 - first]]))
    torch.testing.assert_close(context, torch.tensor([[first]]))


def test_gradients_of_queries_and_memory() -> None:
    attend = random_attention()
    valid = torch.tensor([[True, True, True], [True, False, False]])

    def run(query: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        context, weights = attend(query, encoded(memory, valid, attend, [0, 1, 0]))
        return context, weights

    query = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (query, memory))


def test_padding_has_weight_exactly_zero() -> None:
    model, seen = updown(), regions(2, 5)
    _, weights = model.attend(torch.randn(2, 7, dtype=torch.float64), model.encode(seen))
    assert weights[0, 2:].tolist() == [0, 0, 0]
    torch.testing.assert_close(weights.sum(1), torch.ones(2, dtype=torch.float64))


def test_an_image_without_regions_is_seen_as_nothing() -> None:
    z = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    weights = masked_softmax(z, torch.tensor([[False, False], [True, True]]))
    assert weights[0].tolist() == [0, 0]
    weights.square().sum().backward()
    assert z.grad is not None and z.grad.isfinite().all() and z.grad[0].tolist() == [0, 0]


def test_permuting_regions_permutes_the_attention() -> None:
    attend, order = random_attention(), torch.tensor([2, 0, 3, 1])
    memory, query = torch.randn(1, 4, 3, dtype=torch.float64), torch.randn(1, 3, dtype=torch.float64)
    valid = torch.tensor([[True, True, False, True]])
    context, weights = attend(query, encoded(memory, valid, attend, [0]))
    context2, weights2 = attend(query, encoded(memory[:, order], valid[:, order], attend, [0]))
    torch.testing.assert_close(weights2, weights[:, order])
    torch.testing.assert_close(context2, context)


def test_rows_may_share_images_in_any_order() -> None:
    """Evenly, unevenly, unsorted, or leaving images out: each row gets what it would get alone."""
    attend = random_attention()
    memory, valid = torch.randn(4, 3, 3, dtype=torch.float64), torch.tensor([[True, True, False]] * 4)
    for row in ([0, 1, 2, 3], [0, 0, 1, 1], [2, 0, 2, 2, 1], [3, 3], [1], [0, 0, 0, 3]):
        query = torch.randn(len(row), 3, dtype=torch.float64)
        context, weights = attend(query, encoded(memory, valid, attend, row))
        for n, image in enumerate(row):
            alone = attend(query[n : n + 1], encoded(memory, valid, attend, [image]))
            torch.testing.assert_close((context[n : n + 1], weights[n : n + 1]), alone)
