"""Captioners whose attention is supervised, by a guide or by boxes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import planted
import pytest
import torch
from torch import Tensor, nn

from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.objectives.attention_kl import attention_kl
from groundling.recipes import (
    WEIGHTS,
    ModelRecipe,
    TrainingContext,
    _teachers,
    builds_model,
    load,
    pos_scan,
    recipe_class,
)
from groundling.recipes.distill import Distill
from groundling.recipes.neuraltalk import Neuraltalk
from groundling.recipes.pos_scan import PosScan
from groundling.recipes.supervised import Supervised
from groundling.recipes.updown import Updown
from groundling.tensors import Batch, Decoding
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import read
from groundling.training.run import train
from groundling.training.stages import Clock, Parts

SIZES: dict[str, Any] = {"hidden": 32, "embed": 16, "attention": 16, "dropout": 0.0}
SMALL: dict[str, Any] = SIZES | {"lr": 1e-2, "min_count": 1, "batch": 4, "decay_every": 100}


class Beside(nn.Module):
    """A guide that is almost sure of the region beside the thing, where no captioner would look by itself."""

    def attention(self, batch: Batch) -> Tensor:
        thing = [planted.THINGS.index(word) if word in planted.THINGS else -1 for word in batch.vocab.words]
        dim = torch.tensor(thing)[batch.targets]  # (N, T)
        shown = batch.regions.feats[batch.image_of].transpose(1, 2)[torch.arange(len(dim))[:, None], dim]  # (N, T, R)
        beside = (shown.argmax(-1) + 1) % planted.REGIONS
        sure = 0.9 * nn.functional.one_hot(beside, planted.REGIONS) + 0.1 / planted.REGIONS
        return sure * (dim >= 0)[..., None]


def four(folder: Path, uses_boxes: bool = False) -> tuple[TrainingContext, Batch]:
    """Four images as training data, and the only batch of them."""
    dataset, store = planted.make(folder, images=5)
    dataset = dataset.split("train")
    if uses_boxes:
        moved = (replace(e, gold=tuple(replace(p, boxes=(beside(p.boxes[0]),)) for p in e.gold)) for e in dataset)
        dataset = replace(dataset, examples=tuple(moved))
    vocab = Vocabulary.build((e.captions[0].tokens for e in dataset), 1)
    batch = next(Loader(dataset, store, vocab, batch_size=4, length=16, uses_boxes=uses_boxes)(0))
    return TrainingContext(dataset, vocab, store.layout, store.fingerprint, groundable_words(dataset)), batch


def beside(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left = (box[0] + 10) % (10 * planted.REGIONS)
    return left, box[1], left + 10, box[3]


def learned(
    recipe: PosScan | Supervised | Distill, context: TrainingContext, batch: Batch, base: ModelRecipe | None = None
) -> Decoding:
    """What it, or the captioner of `base`, makes of the batch after learning it by heart."""
    torch.manual_seed(0)
    own = base or recipe
    assert builds_model(own)
    parts = own.parts(context.vocab, context.layout, context.classes)
    optimizer = torch.optim.Adam(parts.captioner.parameters(), recipe.training.lr)
    (stage,), taught = recipe.stages(context), Parts(captioner=parts.captioner, guide=Beside())
    for step in range(100):
        optimizer.zero_grad()
        torch.stack(list(stage.losses(taught, batch, Clock(step, 0)).values())).sum().backward()
        optimizer.step()
    return decoding_of(parts, batch)


def decoding_of(parts: Parts, batch: Batch) -> Decoding:
    decoded: Decoding = parts.captioner(
        parts.captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets
    )
    return decoded


@pytest.mark.parametrize("config", [{"lam1": 1.0}, {"lam1": 0.0, "lam1_reverse": 1.0}])
def test_a_captioner_learns_four_images_and_looks_where_its_guide_looks(
    config: dict[str, float], tmp_path: Path
) -> None:
    context, batch = four(tmp_path)
    decoded = learned(PosScan.of(**config, **SMALL), context, batch)
    assert decoded.logp.mean() > -0.1
    nouns, told = batch.nouns[:, 1:], Beside().attention(batch).argmax(-1, keepdim=True)
    assert decoded.attn.gather(2, told).squeeze(2)[nouns].min() > 0.5


@pytest.mark.parametrize("name", ["updown", "updown_aware", "cyclical", "adaptive", "multihead", "multi_branch"])
def test_any_captioner_that_attends_to_regions_follows_a_guide(name: str, tmp_path: Path) -> None:
    context, batch = four(tmp_path)
    base = recipe_class(name).of(**SIZES | ({"location": 8} if name not in ("updown", "adaptive") else {}))
    assert builds_model(base)
    decoded = learned(Distill.of(lam1=1.0, lr=1e-2), context, batch, base)
    first, *others = decoded.branches or (decoded,)
    assert first.logp.mean() > -0.1 and all(branch.logp.mean() > -0.3 for branch in others)
    nouns, told = batch.nouns[:, 1:], Beside().attention(batch).argmax(-1, keepdim=True)
    assert first.attn.gather(2, told).squeeze(2)[nouns].min() > 0.5


def test_distillation_is_a_fine_tune_recipe_that_wants_a_guide_and_a_captioner_that_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _teachers.teacher
    monkeypatch.setattr(_teachers, "teacher", lambda run, context: Beside() if run else real(run, context))
    dataset, store = planted.make(tmp_path / "store", images=10)
    data = dataset.split("train"), dataset.split("val"), store
    plain = {"hidden": 8, "embed": 8, "epochs": 1, "min_count": 1}
    train(Updown.of(attention=8, **plain), *data, tmp_path / "start")
    fine_tune = Distill.of(guide="planted", epochs=1)
    train(fine_tune, *data, tmp_path / "run", start=tmp_path / "start")
    after = load(tmp_path / "run")
    assert (after.recipe, after.fine_tuning) == (Updown.of(attention=8, **plain), (fine_tune,))
    assert {name.partition(".")[0] for name in read(tmp_path / "run" / WEIGHTS)[0]} == {"captioner"}
    with pytest.raises(GroundlingError, match="--guide RUN"):
        train(Distill(), *data, tmp_path / "none", start=tmp_path / "start")
    train(Neuraltalk.of(**plain), *data, tmp_path / "blind")
    with pytest.raises(GroundlingError, match="has no attention"):
        train(fine_tune, *data, tmp_path / "none", start=tmp_path / "blind")


@pytest.mark.parametrize("form", ["nll", "kl", "ce", "nll_any", "kl_any"])
def test_boxes_tell_a_captioner_where_to_look(form: str, tmp_path: Path) -> None:
    """The boxes are moved one region on, so that nothing but the boxes can be the reason."""
    context, batch = four(tmp_path, uses_boxes=True)
    decoded = learned(Supervised.of(**{"nll": 0.0, form: 1.0}, **SMALL), context, batch)
    assert batch.gold is not None
    right = (decoded.attn * batch.gold[:, 1:]).sum(-1)[batch.gold[:, 1:].any(-1)]
    assert len(right) == 8 and right.min() > 0.5
    assert decoded.logp.mean() > -0.1


def test_the_terms_are_those_of_the_equation_on_nouns_that_the_guide_places(tmp_path: Path) -> None:
    context, batch = four(tmp_path)
    recipe = PosScan.of(lam1=0.5, lam1_reverse=0.25, **SMALL)
    parts = recipe.parts(context.vocab, context.layout, context.classes)

    class Forgetful(Beside):
        def attention(self, batch: Batch) -> Tensor:
            alpha = super().attention(batch)
            alpha[:, 4] = 0  # no opinion of the second thing
            return alpha

    terms = recipe.xe(Parts(**dict(parts.named_children()), guide=Forgetful()), batch, Clock(0, 0))
    alpha, beta = Forgetful().attention(batch), decoding_of(parts, batch).attn
    first = torch.zeros_like(batch.targets, dtype=torch.bool)
    first[:, 1] = True
    torch.testing.assert_close(terms["attention"], 0.5 * attention_kl(alpha, beta, first))
    torch.testing.assert_close(terms["attention reverse"], 0.25 * attention_kl(beta, alpha, first))


def test_without_a_guide_the_recipe_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match="--guide.*matcher_pos_scan"):
        PosScan().teachers(four(tmp_path)[0])


def test_a_guide_leaves_no_trace_in_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Heavy(Beside):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

    monkeypatch.setattr(pos_scan, "teacher", lambda folder, context: Heavy())
    dataset, store = planted.make(tmp_path / "store", images=5)
    recipe = PosScan.of(guide="planted", epochs=1, **SMALL)
    train(recipe, dataset.split("train"), dataset.split("val"), store, tmp_path / "run")
    assert load(tmp_path / "run").recipe == recipe
    assert {name.partition(".")[0] for name in read(tmp_path / "run" / WEIGHTS)[0]} == {"captioner"}
