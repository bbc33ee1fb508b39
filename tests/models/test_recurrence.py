"""Steps without autograd: products in blocks, and captions that learn from the steps that drew them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tiny import DIM, HIDDEN, VOCAB, regions, updown
from torch import Tensor

from groundling import decoding
from groundling.models import products
from groundling.models.layers import Additive, Plain
from groundling.models.products import Product
from groundling.models.updown import Stepper, UpDown
from groundling.tensors import EncodedImage, Regions
from groundling.types import BOS, EOS, PAD


@pytest.mark.parametrize("rows", [0, 1, 3, 20])
@pytest.mark.parametrize("blocks", [True, False])
def test_a_product_is_a_linear_layer(rows: int, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not blocks:
        monkeypatch.setattr(products, "_blocks", lambda: False)
    x, weight, bias = torch.randn(rows, 33), torch.randn(70, 33), torch.randn(70)
    torch.testing.assert_close(Product(weight)(x), F.linear(x, weight))
    torch.testing.assert_close(Product(weight)(x, bias), F.linear(x, weight, bias))


def test_a_product_keeps_the_weights_of_its_beginning_and_knows_other_numbers() -> None:
    weight, x = torch.randn(5, 4, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    torch.testing.assert_close(Product(weight)(x), x @ weight.t())


def model_of(kind: str) -> tuple[UpDown, Regions]:
    seen = regions(4, 2, 3)
    if kind == "linked":
        columns = [-1, -1, -1, -1, 2, 0, -1, 1, 1, -1, 2]
        model = UpDown(VOCAB, Plain(DIM, HIDDEN), Additive(HIDDEN, 6), HIDDEN, 4, word_columns=columns)
        return model.double().eval(), replace(seen, whole=torch.randn(3, 3).double())
    if kind == "uncoupled":
        return UpDown(VOCAB, Plain(DIM, HIDDEN), Additive(HIDDEN, 6), HIDDEN, 4, coupled=False).double().eval(), seen
    return updown(), seen


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("kind", ["plain", "linked", "uncoupled"])
@pytest.mark.parametrize("length", [1, 8])
def test_what_was_drawn_has_the_log_p_and_gradients_of_teacher_forcing(kind: str, greedy: bool, length: int) -> None:
    torch.manual_seed(0)
    model, seen = model_of(kind)
    samples, gain = 4, torch.randn(12, 1, dtype=torch.float64)

    def gradients(logp: Tensor) -> dict[str, Tensor]:
        model.zero_grad()
        (gain * logp).sum().backward()
        return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    encoded = model.encode(seen)
    stepper, rows = model.stepper(encoded, record=True)
    assert isinstance(stepper, Stepper)
    words = decoding.draw_several(stepper, rows, length, samples, greedy)[: 3 * samples]
    logp = stepper.log_likelihood(words)
    drawn = gradients(logp)
    again = model.encode(seen)[torch.arange(3).repeat_interleave(samples)]
    before = torch.cat([torch.full_like(words[:, :1], BOS), words[:, :-1]], 1)
    forced = model(again, before, words, mask_special=True).logp
    torch.testing.assert_close(logp, forced)
    torch.testing.assert_close(drawn, gradients(forced))
    ends = (words == EOS).any(1)
    assert length == 1 or (ends.sum() > 0 and len(set((words != PAD).sum(1).tolist())) > 1)


def test_steps_without_gradients_are_the_captioner_s_own() -> None:
    """Rows that are dropped and repeated between steps carry their image and their state."""
    model, seen = updown(), regions(4, 2, 3)

    def run(stepper: UpDown | Stepper, encoded: EncodedImage) -> list[Tensor]:
        state, found = stepper.start(encoded), []
        for token, pick in (([BOS] * 3, [2, 0, 0, 1]), ([4, 5, 6, 7], [3, 1]), ([8, 9], [0, 1])):
            logp, glimpse, state = stepper.step(torch.tensor(token), encoded, state)
            found += [logp, glimpse.attn]
            encoded, state = encoded[torch.tensor(pick)], decoding.pick_rows(state, torch.tensor(pick))
        return found

    with torch.no_grad():
        encoded = model.encode(seen)
        torch.testing.assert_close(run(*model.stepper(encoded)), run(model, encoded))  # type: ignore[arg-type]


def test_where_dropout_is_on_the_captioner_makes_its_steps_itself() -> None:
    model = updown().train()
    encoded = model.encode(regions(2))
    assert model.stepper(encoded) == (model, encoded)
