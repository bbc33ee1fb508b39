"""Probabilities among the words that captions may have, of every captioner: word by word, and by teacher forcing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_multi_branch import multi_branch
from test_sentinel_and_plain import adaptive, large, neuraltalk
from tiny import regions, updown
from torch import Tensor

from groundling import decoding
from groundling.tensors import Captioner, EncodedImage
from groundling.types import BOS, PAD, UNK

NEVER = [PAD, BOS, UNK]


@pytest.fixture(
    params=[
        updown,
        lambda: large(neuraltalk),
        lambda: large(adaptive),
        lambda: multi_branch(1),
        lambda: multi_branch(3),
    ],
    ids=["updown", "neuraltalk2", "adaptive", "one branch", "three branches"],
)
def model(request: pytest.FixtureRequest) -> Any:
    """A captioner that would rather say UNK than anything else."""
    made = request.param()
    with torch.no_grad():
        made.logits.bias[UNK] += 4
    return made


def drawn(model: Captioner) -> tuple[EncodedImage, Tensor]:
    torch.manual_seed(0)
    encoded = model.encode(regions(4, 2, 3))
    return encoded[torch.arange(3).repeat_interleave(5)], decoding.sample_several(model, encoded, 6, 5)


def before(words: Tensor) -> Tensor:
    return torch.cat([torch.full_like(words[:, :1], BOS), words[:, :-1]], 1)


def test_captions_that_were_drawn_are_scored_with_the_probabilities_that_they_were_drawn_from(model: Any) -> None:
    encoded, words = drawn(model)
    found, state = model(encoded, before(words), words, mask_special=True).logp, model.start(encoded)
    for t, (word, target) in enumerate(zip(before(words).unbind(1), words.unbind(1), strict=True)):
        logp, _, state = model.step(word, encoded, state, mask_special=True)
        torch.testing.assert_close(logp.exp().sum(1), torch.ones(15, dtype=torch.float64))
        assert not logp[:, NEVER].exp().any()
        expected = logp.gather(1, target[:, None]).squeeze(1) * (target != PAD)
        torch.testing.assert_close(found[:, t], expected)
    assert words[:, -1].any() and not words[:, -1].all()


def test_they_teach_nothing_to_special_tokens(model: Any) -> None:
    encoded, words = drawn(model)
    model(encoded, before(words), words, mask_special=True).logp.sum().backward()
    for grad in (model.logits.weight.grad, model.logits.bias.grad):
        assert not grad[NEVER].any() and grad.abs().max() > 0.1


def test_among_all_words_they_are_as_likely_as_ever(model: Any) -> None:
    """log p(y) = log p(y | no special token) + log p(no special token), for captioners of one softmax."""
    encoded, words = drawn(model)
    every, _, _ = model.step(words[:, 0], encoded, model.start(encoded))
    torch.testing.assert_close(every.exp().sum(1), torch.ones(15, dtype=torch.float64))
    assert (every[:, UNK].exp() > 0.05).all()
    if len(getattr(model, "others", ())) == 0:
        mask_special, _, _ = model.step(words[:, 0], encoded, model.start(encoded), mask_special=True)
        rest = (1 - every[:, NEVER].exp().sum(1)).log()
        torch.testing.assert_close(mask_special[:, UNK + 1 :] + rest[:, None], every[:, UNK + 1 :])
