"""New words of a trained grounder."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from groundling.recipes import Model
from groundling.recipes.two_branch import TwoBranch
from groundling.regions.records import Layout
from groundling.text import words
from groundling.text.classes import Classes
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.training.extend import extended
from groundling.types import Fingerprint

CAPTIONS = [replace(words.caption("a poodle and a zyzzyva"), tags=("DT", "NN", "CC", "DT", "NN"))] * 2


def grounder(folder: Path) -> Model:
    """A grounder that knows a dog and a cat, with the vectors of a file."""
    (folder / "v.txt").write_text("dog 1 2\ncat 3 6\npoodle 4 2\n")
    recipe = TwoBranch.of(vectors=str(folder / "v.txt"), vector_size=2, embed=3, joint=4, hidden=4, distill=0)
    vocab = Vocabulary((*SPECIAL, "dog", "cat"), (False,) * len(SPECIAL) + (True, True))
    layout, classes = Layout(dim=3), Classes((), {})
    return Model(recipe, recipe.parts(vocab, layout, classes), vocab, Fingerprint("toy", "1", 3), layout, classes)


def test_a_new_word_begins_with_its_own_word_vector(tmp_path: Path) -> None:
    """The model has (1, 2) as (-1, -1) and (3, 6) as (1, 1), so (4, 2) is (2, -1); its learned numbers are a dog's."""
    model = grounder(tmp_path)
    bigger = extended(model, CAPTIONS)
    at, dog = (bigger.vocab.encode([word])[0] for word in ("poodle", "dog"))
    weights = bigger.parts.state_dict()
    torch.testing.assert_close(weights["matcher.vectors"][at], torch.tensor([2.0, -1.0]))
    assert torch.equal(weights["matcher.embed.weight"][at], weights["matcher.embed.weight"][dog])
    assert torch.equal(weights["matcher.vectors"][: len(model.vocab)], model.parts.state_dict()["matcher.vectors"])
    unknown = weights["matcher.vectors"][bigger.vocab.encode(["zyzzyva"])[0]]
    torch.testing.assert_close(unknown, torch.tensor([0.0, 0.0]))  # the mean of (-1, -1) and (1, 1)


def test_without_the_word_vectors_a_new_word_begins_with_those_of_the_nearest_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = grounder(tmp_path)
    (tmp_path / "v.txt").unlink()
    with caplog.at_level(logging.WARNING):
        bigger = extended(model, CAPTIONS)
    at, dog = (bigger.vocab.encode([word])[0] for word in ("poodle", "dog"))
    weights = bigger.parts.state_dict()
    assert torch.equal(weights["matcher.vectors"][at], weights["matcher.vectors"][dog])
    assert "nearest known words" in caplog.text
