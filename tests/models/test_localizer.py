"""The localizer: eq. 6 by hand, and a captioner whose attention is given."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny import HIDDEN, regions, updown
from torch import Tensor

from groundling.models.localizer import Localizer, perceptron
from groundling.tensors import EncodedImage
from groundling.types import BOS, EOS, PAD

TOKENS = torch.tensor([[BOS, 4, 5, EOS, PAD], [BOS, 6, 7, 8, EOS], [BOS, 9, EOS, PAD, PAD]])
IMAGE_OF = torch.tensor([1, 0, 1])


def localizer(size: int = 4, layers: int = 1) -> Localizer:
    torch.manual_seed(3)
    return Localizer(perceptron(size, 6, layers)).double()


def test_equation_6_by_hand() -> None:
    """W_l = (1, 2), e = 1, r = (1, 0), (0, 1): z = (1, 2) / √2, β = softmax(z), r̂ = 10 β_1 + 20 β_2."""
    ask = torch.nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        ask.weight.copy_(torch.tensor([[1.0], [2.0]]))
    memory, valid = torch.tensor([[[10.0], [20.0]]]), torch.ones(1, 2, dtype=torch.bool)
    one = torch.zeros(1, dtype=torch.int64)
    encoded = EncodedImage(memory, torch.eye(2)[None], valid, valid.long() * 0, memory[:, 0], one)
    context, weights = Localizer(ask)(torch.ones(1, 1), encoded)
    beta = (torch.tensor([1.0, 2.0]) / 2**0.5).softmax(0)
    torch.testing.assert_close(weights, beta[None])
    torch.testing.assert_close(context, (10 * beta[0] + 20 * beta[1]).view(1, 1))


def test_two_layers_have_a_relu_between_them() -> None:
    ask, query = perceptron(4, 6, 2).double(), torch.randn(5, 4, dtype=torch.float64)
    first, _, second = ask
    torch.testing.assert_close(ask(query), second(first(query).relu()))


@pytest.mark.parametrize("layers", [1, 2])
def test_padding_changes_nothing_and_a_permutation_of_regions_permutes_the_weights(layers: int) -> None:
    model, seen, ask = updown(), regions(4), localizer(layers=layers)
    query = torch.randn(1, 4, dtype=torch.float64)
    context, weights = ask(query, model.encode(seen))
    padded = type(seen).stack([seen, regions(6)])
    wide, wider = ask(query, model.encode(padded)[torch.tensor([0])])
    torch.testing.assert_close((wide, wider[:, :4]), (context, weights))
    assert not wider[:, 4:].any()
    order = torch.tensor([2, 0, 3, 1])
    turned = replace(seen, feats=seen.feats[:, order], boxes=seen.boxes[:, order])
    torch.testing.assert_close(ask(query, model.encode(turned)), (context, weights[:, order]))


def test_one_row_equals_its_row_in_a_batch() -> None:
    model, seen, ask = updown(), regions(4, 2), localizer()
    encoded, query = model.encode(seen)[IMAGE_OF], torch.randn(3, 4, dtype=torch.float64)
    together = ask(query, encoded)
    for n in range(3):
        alone = ask(query[n : n + 1], encoded[torch.tensor([n])])
        torch.testing.assert_close(alone, tuple(x[n : n + 1] for x in together))


def test_gradients_against_finite_differences() -> None:
    model, ask = updown(gain=1.0), localizer()
    encoded = model.encode(regions(3, 2))[IMAGE_OF]
    query = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    keys = encoded.keys.detach().requires_grad_()

    def run(query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        context, weights = ask(query, replace(encoded, keys=keys, memory=encoded.memory.detach()))
        return context, weights

    assert torch.autograd.gradcheck(run, (query, keys))


# ---------------------------------------------------------------- a captioner whose attention is given


def test_a_captioner_told_to_look_where_it_would_look_says_the_same() -> None:
    model, seen = updown(), regions(4, 2)
    encoded, inputs, targets = model.encode(seen)[IMAGE_OF], TOKENS[:, :-1], TOKENS[:, 1:]
    own = model(encoded, inputs, targets)
    told = model(encoded, inputs, targets, attend_step=lambda t, rows, hidden, here: model.attend_regions(hidden, here))
    torch.testing.assert_close((told.logp, told.attn), (own.logp, own.attn))


def test_what_is_looked_at_belongs_to_its_caption_and_step() -> None:
    """A context per caption and step, at random: `forward`, which sorts and packs, equals one caption at a time."""
    model, seen = updown(), regions(4, 2)
    contexts = torch.randn(3, 4, HIDDEN, dtype=torch.float64)
    encoded = model.encode(seen)[IMAGE_OF]
    decoded = model(
        encoded,
        TOKENS[:, :-1],
        TOKENS[:, 1:],
        attend_step=lambda t, rows, hidden, here: (contexts[rows, t], model.attend_regions(hidden, here)[1]),
    )
    for n in range(3):
        alone = model(
            encoded[torch.tensor([n])],
            TOKENS[n : n + 1, :-1],
            TOKENS[n : n + 1, 1:],
            attend_step=lambda t, rows, hidden, here, n=n: (contexts[[n], t], model.attend_regions(hidden, here)[1]),
        )
        torch.testing.assert_close((alone.logp[0], alone.attn[0, ..., :4]), (decoded.logp[n], decoded.attn[n]))
    own = model(encoded, TOKENS[:, :-1], TOKENS[:, 1:])
    assert not torch.allclose(own.logp, decoded.logp)
