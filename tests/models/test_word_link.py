"""Logits with the word scores of the image vector: by hand, all at once as step by step, and which words are linked."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_updown import IMAGE_OF, TOKENS, assert_same, step_by_step
from tiny import DIM, HIDDEN, VOCAB, regions

from groundling.errors import GroundlingError
from groundling.models.layers import Additive, Plain, WordLink
from groundling.models.multi_branch import MultiBranch
from groundling.models.updown import UpDown
from groundling.recipes._captioning import word_columns
from groundling.regions.records import Layout
from groundling.tensors import Regions
from groundling.text.vocab import Vocabulary
from groundling.types import Fingerprint

COLUMNS = [-1, -1, -1, -1, 2, 0, -1, 1, 1, -1, 2]  # of 11 words, in image vectors of 3 numbers


def seen() -> Regions:
    images = regions(4, 2, 3)
    return replace(images, whole=torch.randn(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64))


def linked(model: UpDown | MultiBranch) -> UpDown | MultiBranch:
    link = model.double().eval().word_link
    assert link is not None and link.column.tolist() == COLUMNS
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(weight))))
    return model


def test_a_word_of_the_image_gains_and_one_that_it_does_not_know_stays() -> None:
    """z = (2, 0), a = (3, 1), the gate σ(0) = 1/2: logits (1, 1) become (1 + 1/2 · 3 · 2, 1) = (4, 1)."""
    link = WordLink([1, -1], 1)
    with torch.no_grad():
        link.gain.copy_(torch.tensor([3.0, 1.0]))
        link.gate.bias.zero_()
    scores = link(torch.tensor([[5.0, 2.0]]))
    torch.testing.assert_close(scores, torch.tensor([[6.0, 0.0]]))
    torch.testing.assert_close(link.add(torch.ones(1, 2), torch.zeros(1, 1), scores), torch.tensor([[4.0, 1.0]]))


def test_a_linked_captioner_is_the_same_step_by_step_and_all_at_once() -> None:
    torch.manual_seed(0)
    model = linked(UpDown(VOCAB, Plain(DIM, HIDDEN), Additive(HIDDEN, 6), hidden=HIDDEN, embed=4, word_columns=COLUMNS))
    encoded = model.encode(seen())[IMAGE_OF]
    inputs, targets = TOKENS[:, :-1], TOKENS[:, 1:]
    assert_same(model(encoded, inputs, targets), step_by_step(model, encoded, inputs, targets))


def test_one_linked_branch_is_a_linked_up_down() -> None:
    sizes = {"hidden": HIDDEN, "embed": 4, "word_columns": COLUMNS}
    one = linked(MultiBranch(VOCAB, Plain(DIM, HIDDEN), [Additive(HIDDEN, 6)], **sizes))
    other = linked(UpDown(VOCAB, Plain(DIM, HIDDEN), Additive(HIDDEN, 6), **sizes))
    inputs, targets = TOKENS[:, :-1], TOKENS[:, 1:]
    found = [model(model.encode(seen())[IMAGE_OF], inputs, targets) for model in (one, other)]
    torch.testing.assert_close(found[0].logp, found[1].logp)


def test_words_are_linked_by_their_lemmas() -> None:
    """The image vector has 5 numbers; the last two are those of the words dog and sit."""
    vocab = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", "dogs", "sitting", "cat"), (False,) * 7)
    fingerprint = Fingerprint("photos", "2", 4, labels=("person", "word:dog", "word:sit"))
    assert word_columns(vocab, Layout(4, whole=5).of_source(fingerprint)) == [-1, -1, -1, -1, 3, 4, -1]


def test_a_source_without_words_is_refused() -> None:
    vocab = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>"), (False,) * 4)
    with pytest.raises(GroundlingError, match="the source of these regions has none: train with --word-link 0"):
        word_columns(vocab, Layout(4, whole=5).of_source(Fingerprint("scenes", "1", 4)))
