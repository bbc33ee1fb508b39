"""Contrastive learning and what it is compared with, on a trained captioner of images that are easily confused."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import planted
import pytest
import torch
from torch import Tensor, nn

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.evaluation.self_retrieval import Gallery
from groundling.metrics.retrieval import own_ranks
from groundling.recipes import ABOUT, Recipe, TrainingContext, _teachers, load
from groundling.recipes._mismatched import Mismatched
from groundling.recipes.adaptive import Adaptive
from groundling.recipes.contrastive import Contrastive, log_ratio, logp
from groundling.recipes.gan import Gan
from groundling.recipes.introspective import Introspective
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.neuraltalk import Neuraltalk
from groundling.recipes.updown import Updown
from groundling.regions.store import Store
from groundling.tensors import Batch
from groundling.training import fit as fit_module
from groundling.training.checkpoint import read
from groundling.training.run import train
from groundling.training.stages import Clock, Parts
from groundling.types import Caption, Score

CPU = torch.device("cpu")
START = Updown.of(hidden=32, embed=16, attention=16, dropout=0.0, lr=1e-2, epochs=12, batch=8, min_count=1)
CL = Contrastive.of(lr=1e-2, epochs=12, batch=8, captions_per_image=1)


class World(NamedTuple):
    data: Dataset
    store: Store
    run: Path

    def finish(self, recipe: Recipe, out: Path) -> Path:
        train(recipe, self.data.split("train"), self.data.split("val"), self.store, out, start=self.run)
        return out

    def context(self) -> TrainingContext:
        model = load(self.run)
        return TrainingContext(
            self.data.split("train"), model.vocab, model.layout, model.fingerprint, model.groundable, start=model
        )

    def batch(self) -> Batch:
        loader = Loader(
            self.data.split("train"), self.store, load(self.run).vocab, batch_size=8, length=16, captions_per_image=1
        )
        return next(iter(loader(0)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A captioner that has learned how captions go, but not yet to tell images with the same second thing apart."""
    folder = tmp_path_factory.mktemp("confusable")
    data, store = planted.make(folder / "store", images=60)
    train(START, data.split("train"), data.split("val"), store, folder / "run")
    return World(data, store, folder / "run")


def distinctiveness(world: World, run: Path) -> tuple[int, float]:
    """Distinct captions of the training images, and the share that find their image."""
    ids = [example.id for example in world.data.split("train")]
    gallery = Gallery.of(load(run), world.store, ids, CPU, quiet=True)
    ranks = own_ranks(gallery.scores(quiet=True))
    return len(set(map(tuple, gallery.words()))), float(np.mean(ranks == 1))


def test_contrastive_learning_makes_captions_of_confusable_images_distinct(world: World, tmp_path: Path) -> None:
    """48 images of 30 pairs of things: before, a few captions for all of them; after, most find their own image."""
    kinds, found = distinctiveness(world, world.run)
    assert kinds <= 12 and found <= 0.25
    kinds, found = distinctiveness(world, world.finish(CL, tmp_path / "cl"))
    assert kinds >= 18 and found >= 0.4


def test_a_finish_leaves_a_captioner_and_no_trace_of_its_reference(world: World, tmp_path: Path) -> None:
    after = load(world.finish(CL.changed(epochs=1), tmp_path / "cl"))
    assert after.recipe == START and after.fine_tuning == (CL.changed(epochs=1),)
    assert set(dict(after.parts.named_children())) == {"captioner"}
    assert json.loads((tmp_path / "cl" / ABOUT).read_text())["fine_tuning"][0]["recipe"] == "contrastive"


def test_the_first_step_costs_log_2_and_yet_there_is_something_to_learn(world: World) -> None:
    """Target and reference are equal: G = 0 for all pairs; section 4.3 notes that the gradient is not 0."""
    context, batch = world.context(), world.batch()
    assert context.start is not None
    m = Parts(captioner=context.start.parts.captioner, **CL.teachers(context))
    m.captioner.requires_grad_(True)
    terms = CL.stages(context)[0].losses(m, batch, Clock(0, 0))
    assert terms["true"].item() == pytest.approx(math.log(2)) and terms["false"].item() == pytest.approx(math.log(2))
    torch.stack(list(terms.values())).sum().backward()
    assert max(float(p.grad.abs().max()) for p in m.captioner.parameters() if p.grad is not None) > 1e-3
    assert not any(p.grad is not None for p in m.earlier.parameters() if not p.requires_grad)


def test_the_ratio_is_that_of_the_captions_in_the_batch_then_of_others(world: World) -> None:
    context, batch = world.context(), world.batch()
    assert context.start is not None
    captioner = context.start.parts.captioner
    others = Mismatched.of(context)
    ratio, attn = log_ratio(captioner, captioner, batch, others, 4)
    assert ratio.shape == (5 * len(batch.tokens),)
    torch.testing.assert_close(ratio, torch.zeros_like(ratio))
    decoded = captioner(captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    torch.testing.assert_close(attn, decoded.attn)


def test_of_several_branches_the_first_is_guided_and_the_length_of_other_captions_does_not_matter(world: World) -> None:
    context, batch = world.context(), world.batch()
    batch = replace(batch, tokens=batch.tokens[:, :4])
    recipe = MultiBranch.of(branches=2, hidden=16, embed=8, attention=8, location=4, dropout=0.0)
    captioner = recipe.parts(context.vocab, context.layout, context.classes).captioner
    _, attn = log_ratio(captioner, captioner, batch, Mismatched.of(context), 2)
    decoded = captioner(captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    assert not torch.equal(decoded.attn, decoded.branches[0].attn)
    torch.testing.assert_close(attn, decoded.branches[0].attn)


class Leftmost(nn.Module):
    """A guide who finds every word in the first region."""

    def attention(self, batch: Batch) -> Tensor:
        where = torch.zeros(*batch.targets.shape, batch.regions.boxes.shape[1])
        where[..., 0] = 1
        return where


def test_with_a_guide_the_target_looks_where_the_guide_does_at_nouns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_teachers, "teacher", lambda folder, context: Leftmost())
    context, batch, recipe = world.context(), world.batch(), CL.changed(guide="planted", lam1=0.5)
    assert context.start is not None
    captioner = context.start.parts.captioner
    m = Parts(captioner=captioner, **recipe.teachers(context))
    terms = recipe.stages(context)[0].losses(m, batch, Clock(0, 0))
    decoded = captioner(captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    nouns = batch.nouns[:, 1:]
    assert nouns.any() and set(terms) == {"true", "false", "attention"}
    torch.testing.assert_close(terms["attention"], -0.5 * decoded.attn[..., 0][nouns].log().mean())


def test_a_captioner_that_looks_nowhere_cannot_be_guided(world: World, tmp_path: Path) -> None:
    blind = Neuraltalk.of(hidden=8, embed=8, epochs=1, batch=8, min_count=1)
    train(blind, world.data.split("train"), world.data.split("val"), world.store, tmp_path / "blind")
    with pytest.raises(GroundlingError, match="has no attention"):
        world._replace(run=tmp_path / "blind").finish(CL.changed(guide="planted", epochs=1), tmp_path / "cl")


def test_parts_of_the_objective_can_be_left_out(world: World) -> None:
    context, batch = world.context(), world.batch()
    assert context.start is not None
    m = Parts(captioner=context.start.parts.captioner, **CL.teachers(context))
    alone = CL.changed(negative=0.0).stages(context)[0].losses(m, batch, Clock(0, 0))
    assert alone["false"].item() == 0 and alone["true"].item() > 0
    with pytest.raises(GroundlingError, match="positive or negative"):
        CL.changed(positive=0.0, negative=0.0)


def test_mismatched_captions_are_any_but_the_images_own(world: World) -> None:
    """Three images with 1, 2 and 3 captions, all different: image b never draws its own, all others equally often."""
    vocab = load(world.run).vocab
    words = [vocab.words[4 + i] for i in range(6)]
    captions = [Caption(w, (w,), ((0, len(w)),)) for w in words]
    first = world.data.examples[0]
    examples = [
        replace(first, id=name, captions=tuple(captions[a:b])) for name, a, b in (("a", 0, 1), ("b", 1, 3), ("c", 3, 6))
    ]
    others = Mismatched.of(replace(world.context(), examples=replace(world.data, examples=tuple(examples))))
    torch.manual_seed(0)
    for name, own in (("a", {0}), ("b", {1, 2}), ("c", {3, 4, 5})):
        drawn = Counter(int(row[1]) - 4 for row in others.draw([name], 3000))
        assert set(drawn) == set(range(6)) - own
        assert min(drawn.values()) > 0.8 * 3000 / (6 - len(own))


def test_captions_of_one_image_alone_are_refused(world: World) -> None:
    alone = replace(world.data, examples=world.data.examples[:1])
    with pytest.raises(GroundlingError, match="all captions are of one image"):
        Mismatched.of(replace(world.context(), examples=alone))


class Killed(BaseException):
    """As sudden as a kill."""


@pytest.mark.parametrize("step", [3, 5, 7])
def test_a_run_with_a_replaced_reference_that_is_killed_and_resumed_is_the_same_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Four steps an epoch, the reference replaced after each: killed in the first, before and in the second stage."""
    recipe = CL.changed(epochs=2, replace_every=1, captions_per_image=1, sets=2)
    assert [stage.name for stage in recipe.stages(world.context())] == ["cl 1", "cl 2"]
    whole = world.finish(recipe, tmp_path / "whole")
    original, count = fit_module.seed_everything, 0

    def seed(*place: int) -> None:
        nonlocal count
        count += 1
        if count == step:
            raise Killed
        original(*place)

    ways = world.data.split("train"), world.data.split("val"), world.store, tmp_path / "cut"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(fit_module, "seed_everything", seed)
        train(recipe, *ways, start=world.run, save_seconds=0.0)
    train(recipe, *ways, start=world.run)
    assert (whole / "log.csv").read_bytes() == (tmp_path / "cut" / "log.csv").read_bytes()
    for one, other in zip(*(read(f / "model.safetensors")[0].values() for f in (whole, tmp_path / "cut")), strict=True):
        assert torch.equal(one, other)


def test_a_stronger_reference_of_another_kind_serves_and_one_of_other_words_is_refused(
    world: World, tmp_path: Path
) -> None:
    other = Adaptive.of(hidden=16, embed=8, attention=8, epochs=1, batch=8, min_count=1, length=16)
    ways = world.data.split("train"), world.data.split("val"), world.store
    train(other, *ways, tmp_path / "stronger")
    recipe = CL.changed(epochs=2, replace_every=1, reference=str(tmp_path / "stronger"))
    assert load(world.finish(recipe, tmp_path / "cl")).recipe == START
    train(other.changed(min_count=30), *ways, tmp_path / "fewer")
    with pytest.raises(GroundlingError, match="cannot be compared.*--min-count"):
        world.finish(recipe.changed(reference=str(tmp_path / "fewer")), tmp_path / "no")


def test_a_reference_sees_no_more_regions_than_it_was_trained_with(world: World, tmp_path: Path) -> None:
    ways = world.data.split("train"), world.data.split("val"), world.store
    few = Updown.of(hidden=8, embed=8, attention=8, epochs=1, batch=16, min_count=1, regions_per_image=2)
    train(few, *ways, tmp_path / "few")
    reference = CL.changed(reference=str(tmp_path / "few")).teachers(world.context())["reference"]
    batch = world.batch()
    narrow = replace(batch, regions=batch.regions.first(2))
    captioner = load(tmp_path / "few").parts.captioner
    own, less, more = (
        logp(of, seen, seen.image_of, seen.tokens)
        for of, seen in ((reference, batch), (captioner, narrow), (captioner, batch))
    )
    torch.testing.assert_close(own, less)
    assert not torch.allclose(own, more)


@pytest.mark.parametrize(
    ("recipe", "last"),
    [
        (CL.changed(epochs=2, positive=0.0), True),
        (Introspective.of(epochs=2, batch=48, captions_per_image=1), True),
        (Gan.of(epochs=2, batch=48, captions_per_image=1, hidden=16, embed=16, samples=1), True),
        (CL.changed(epochs=2), False),
    ],
    ids=["negative alone", "introspective", "gan", "full"],
)
def test_who_is_not_there_for_cider_keeps_the_last_weights_and_others_the_best(
    world: World, tmp_path: Path, recipe: Recipe, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling = iter((2.0, 1.0))
    monkeypatch.setattr(type(recipe), "scores", lambda *_: [Score("cider-d", next(falling), 12, "")])
    kept = load(world.finish(recipe, tmp_path / "end")).scores[0].value
    assert kept == (1 if last else 2)
    rows = [row.split(",") for row in (tmp_path / "end" / "log.csv").read_text().splitlines()]
    assert [float(row[4]) for row in rows if row[3] == "cider-d"] == [2, 1]


def test_a_batch_of_one_image_has_the_terms_of_any_other(world: World) -> None:
    """Another process may have more, and all must add up the same terms. There is no other image: nothing is lost."""
    batch, m = world.batch(), Parts(captioner=load(world.run).parts.captioner)
    alone = replace(batch, ids=batch.ids[:1], regions=batch.regions[:1], image_of=batch.image_of[:1])
    alone = replace(alone, tokens=batch.tokens[:1])
    terms, whole = (Introspective().il(m, some, Clock(0, 0)) for some in (alone, batch))
    assert terms.keys() == whole.keys()
    assert terms["other"] == 0 and whole["other"] > 0


def test_introspective_learning_makes_captions_likelier_for_their_own_image(world: World) -> None:
    """All of a batch by a nat at least: the other term comes to 0."""
    batch, m = world.batch(), Parts(captioner=load(world.run).parts.captioner.requires_grad_(True))
    recipe, optimizer = Introspective(), torch.optim.Adam(m.parameters(), 1e-2)
    for _ in range(100):
        terms = recipe.il(m, batch, Clock(0, 0))
        optimizer.zero_grad()
        (terms["own"] + terms["other"]).backward()
        optimizer.step()
    assert recipe.il(m, batch, Clock(0, 0))["other"] < 0.1


@pytest.mark.parametrize(
    "recipe",
    [
        Introspective.of(lr=3e-3, epochs=2, batch=8, captions_per_image=1),
        Gan.of(lr=1e-3, epochs=2, batch=8, captions_per_image=1, hidden=16, embed=16, samples=2),
    ],
    ids=["introspective", "gan"],
)
def test_the_baselines_finish_any_captioner(world: World, tmp_path: Path, recipe: Recipe) -> None:
    after, before = load(world.finish(recipe, tmp_path / "end")), load(world.run)
    assert set(dict(after.parts.named_children())) == {"captioner"}
    moved = [not torch.equal(a, b) for a, b in zip(before.parts.parameters(), after.parts.parameters(), strict=True)]
    assert any(moved)


def test_an_evaluator_learns_to_tell_true_captions_from_those_of_others(world: World) -> None:
    torch.manual_seed(0)
    context, batch = world.context(), world.batch()
    assert context.start is not None
    recipe = Gan.of(hidden=16, embed=16, samples=1)
    m = Parts(captioner=context.start.parts.captioner, **recipe.teachers(context))
    others = Mismatched.of(context)
    optimizer = torch.optim.Adam(m.evaluator.parameters(), 1e-2)
    own = torch.arange(len(batch.ids))
    drawn, costs = batch.targets, []
    for _ in range(150):
        terms = recipe.evaluator(m, batch, drawn, own, others)
        costs.append(float((terms["true"] + terms["false"]).detach()))
        optimizer.zero_grad()
        (terms["true"] + terms["false"]).backward()
        optimizer.step()
    assert np.mean(costs[-10:]) < 0.8 * costs[0]


@pytest.mark.parametrize(
    "recipe",
    [
        Neuraltalk.of(hidden=32, embed=16, dropout=0.0, lr=2e-2, epochs=60, batch=8, min_count=1, decay_every=99),
        Adaptive.of(
            hidden=32, embed=16, attention=16, dropout=0.0, lr=1e-2, epochs=30, batch=8, min_count=1, decay_every=9
        ),
    ],
    ids=["neuraltalk", "adaptive"],
)
def test_the_other_captioners_overfit_images_with_planted_things(tmp_path: Path, recipe: Neuraltalk | Adaptive) -> None:
    """And where they look: AdaptiveAttention at the things, Neuraltalk2 nowhere."""
    data, store = planted.make(tmp_path / "store", images=30)
    few = data.split("train")
    train(recipe, few, few, store, tmp_path / "run")
    model = load(tmp_path / "run")
    gallery = Gallery.of(model, store, [e.id for e in few], CPU, quiet=True)
    right = [decoded == list(e.captions[0].tokens) for decoded, e in zip(gallery.words(), few, strict=True)]
    assert sum(right) >= 18  # of 24
    regions = store.batch([e.id for e in few])
    captions = torch.tensor([[1, *model.vocab.encode(e.captions[0].tokens), 2] for e in few])
    attn = model.parts.captioner(model.captioner.encode(regions), captions[:, :-1], captions[:, 1:]).attn
    if isinstance(recipe, Neuraltalk):
        assert not attn.any()
        return
    places = [[int(phrase.boxes[0][0]) // 10 for phrase in e.gold] for e in few]
    hits = [int(attn[i, t].argmax()) == place[k] for i, place in enumerate(places) for k, t in enumerate((1, 4))]
    assert sum(hits) >= 0.4 * len(hits)  # by chance 1 in 5; v^g alone tells the second thing of some
