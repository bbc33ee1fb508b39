"""Distributed attention as a recipe: one branch, then all; a guide for the first; the whole thing from its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest
import torch
from torch import Tensor, nn

from groundling import boxes, decoding
from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.inference.links import boxes_of
from groundling.objectives.attention_kl import attention_kl
from groundling.recipes import TrainingContext, load
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.multihead import Multihead
from groundling.regions.store import Store, Writer
from groundling.tensors import Batch, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.run import train
from groundling.training.stages import Clock, Parts
from groundling.types import Example, Fingerprint, Phrase

SMALL: dict[str, Any] = {"hidden": 32, "embed": 16, "attention": 16, "dropout": 0.0, "lr": 1e-2, "min_count": 1}
QUICK: dict[str, Any] = SMALL | {"batch": 8, "location": 8, "decay_every": 100}
PARTS = 3


def in_parts(folder: Path, images: int = 40, seed: int = 0) -> tuple[Dataset, Store]:
    """Each image holds two things of three parts, the left one named first, and two regions of noise.

    Every part looks like its thing, and no region is all of it: the box of a thing is the union of its parts.
    """
    draw = np.random.default_rng(seed)
    examples, count = [], 2 * PARTS + 2
    with Writer(folder, Fingerprint("parts", "1", planted.DIM)) as writer:
        for number in range(images):
            pair = draw.choice(len(planted.THINGS), 2, replace=False)
            feats = 0.1 * torch.from_numpy(draw.standard_normal((count, planted.DIM))).float()
            places = torch.tensor([[30.0 * (i // PARTS) + 10 * (i % PARTS), 0, 0, 10] for i in range(count)])
            places[:, 2] = places[:, 0] + 10
            for side, thing in enumerate(pair):
                feats[PARTS * side : PARTS * (side + 1), [thing, planted.DIM - 2 + side]] += 2
            order = torch.from_numpy(draw.permutation(count))
            writer.add(str(number), Regions.of(feats[order], places[order], (80, 10)))
            decoded = planted.caption(*(planted.THINGS[thing] for thing in pair))
            gold = tuple(
                Phrase(0, span, boxes=((30.0 * side, 0.0, 30.0 * side + 30, 10.0),), head=span[1] - 1)
                for side, span in enumerate(((0, 2), (3, 5)))
            )
            split = "val" if number % 5 == 0 else "train"
            examples.append(Example(str(number), "", (80, 10), (decoded,), gold, split=split))
    return Dataset("parts", folder, tuple(examples)), Store.open(folder)


def context(dataset: Dataset, store: Store) -> TrainingContext:
    vocab = Vocabulary.build((e.captions[0].tokens for e in dataset), 1)
    return TrainingContext(dataset, vocab, store.layout, store.fingerprint, groundable_words(dataset))


def first_batch(dataset: Dataset, store: Store, images: int = 4) -> Batch:
    vocab = context(dataset, store).vocab
    return next(Loader(dataset.split("train"), store, vocab, batch_size=images, length=8, captions_per_image=1)(0))


def learn(recipe: MultiBranch, parts: Parts, batch: Batch, branches: int, steps: int) -> None:
    optimizer = torch.optim.Adam(parts.captioner.parameters(), 0.01)
    for _ in range(steps):
        losses = recipe.xe(branches, parts, batch, Clock(0, 0))
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimizer.step()


def test_it_learns_things_in_parts_and_points_at_the_whole(tmp_path: Path) -> None:
    """One branch alone, then all: the words are right before and after, the boxes only after."""
    dataset, store = in_parts(tmp_path / "store", images=15)
    about, batch = context(dataset, store), first_batch(dataset, store, 12)
    recipe = MultiBranch.of(**SMALL, location=8, branches=PARTS)
    torch.manual_seed(0)
    parts = recipe.parts(about.vocab, store.layout, about.classes)
    gold = {e.id: [phrase.boxes[0] for phrase in e.gold] for e in dataset}
    truth = torch.tensor([gold[name] for name in batch.ids])  # (N, 2, 4)
    hits = []
    for branches, steps in ((1, 90), (PARTS, 90)):
        learn(recipe, parts, batch, branches, steps)
        decoded = decoding.greedy(parts.captioner, parts.captioner.encode(batch.regions), 8)
        assert decoded.tokens.tolist() == batch.targets[:, : decoded.tokens.shape[1]].tolist()
        where = boxes_of(decoded, batch.regions)[0][:, [1, 4], 0]
        hits.append((boxes.iou(where, truth).diagonal(dim1=1, dim2=2) > 0.5).float().mean())
    assert hits[0] == 0
    assert hits[1] > 0.75


def test_a_run_ends_with_all_branches_open_and_begins_with_those_of_another(tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path / "store", images=10)
    split = dataset.split("train"), dataset.split("val"), store
    train(MultiBranch.of(**QUICK, branches=1, warmup_epochs=1, epochs=1), *split, tmp_path / "one")
    recipe = MultiBranch.of(**QUICK, branches=2, warmup_epochs=0, epochs=1)
    train(recipe.changed(lr=0.0), *split, tmp_path / "two", start=tmp_path / "one")
    one, two = (load(tmp_path / name).parts.captioner for name in ("one", "two"))
    assert (int(one.used), int(two.used)) == (1, 2)
    for name, weight in one.named_parameters():
        assert torch.equal(dict(two.named_parameters())[name], weight)


def test_one_branch_learns_first_and_the_rate_goes_on_falling(tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path / "store", images=5)
    about = context(dataset, store)
    recipe = MultiBranch.of(**SMALL, branches=3, warmup_epochs=5, epochs=4, decay=0.5, decay_every=3)
    parts, batch = recipe.parts(about.vocab, store.layout, about.classes), first_batch(dataset, store)
    warmup, together = recipe.stages(about)
    assert [warmup.schedule(e, []) for e in range(5)] + [together.schedule(e, []) for e in range(4)] == [
        *(1, 1, 1, 0.5, 0.5),
        *(0.5, 0.25, 0.25, 0.25),
    ]
    for stage, used in ((warmup, 1), (together, 3)):
        sum(stage.losses(parts, batch, Clock(0, 0)).values()).backward()
        assert int(parts.captioner.used) == used
        assert all((p.grad is not None) == (used == 3) for p in parts.captioner.others.parameters())
    assert [stage.name for stage in recipe.changed(warmup_epochs=0).stages(about)] == ["together"]


def test_the_loss_is_the_mean_of_the_branches(tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path / "store", images=5)
    about, batch = context(dataset, store), first_batch(dataset, store)
    recipe = MultiBranch.of(**SMALL, branches=2)
    parts = recipe.parts(about.vocab, store.layout, about.classes)
    losses = recipe.xe(2, parts, batch, Clock(0, 0))
    decoded = parts.captioner(parts.captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    expected = -torch.stack([branch.logp[decoded.real].mean() for branch in decoded.branches]).mean()
    assert list(losses) == ["xe"]
    torch.testing.assert_close(losses["xe"], expected)


def test_a_guide_teaches_where_to_look(tmp_path: Path) -> None:
    class Last(nn.Module):
        def attention(self, batch: Batch) -> Tensor:
            """Always the last region but one, and a little of all."""
            alpha = torch.full((*batch.targets.shape, planted.REGIONS), 0.05)
            alpha[..., -2] = 0.8
            return alpha

    dataset, store = planted.make(tmp_path / "store", images=5)
    about, batch = context(dataset, store), first_batch(dataset, store)
    recipe = MultiBranch.of(**SMALL, branches=2, guide="elsewhere", lam1=5.0)
    torch.manual_seed(0)
    parts = recipe.parts(about.vocab, store.layout, about.classes)
    parts.add_module("guide", Last())
    learn(recipe, parts, batch, 2, 40)
    decoded = parts.captioner(parts.captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    nouns = batch.nouns[:, 1:]
    expected = attention_kl(parts.guide.attention(batch), decoded.branches[0].attn, nouns)
    torch.testing.assert_close(recipe.xe(2, parts, batch, Clock(0, 0))["attention"], 5.0 * expected)
    assert (decoded.branches[0].attn[nouns].argmax(-1) == planted.REGIONS - 2).all()
    assert (decoded.branches[1].attn[nouns][:, planted.REGIONS - 2] == 0).all()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: MultiBranch.of(branches=0), "branches must be"),
        (lambda: MultiBranch.of(eliminate=2), "eliminate must be 0 or 1"),
    ],
)
def test_what_is_out_of_range_is_named(made: Any, told: str) -> None:
    with pytest.raises(GroundlingError, match=told):
        made()


def test_multi_head_attention_learns_planted_things_and_looks_at_the_first(tmp_path: Path) -> None:
    """By chance 1 in 5. What the second one is, it has seen by then, and nothing makes it look there again."""
    dataset, store = planted.make(tmp_path / "store", images=40)
    about, batch = context(dataset, store), first_batch(dataset, store, 32)
    recipe = Multihead.of(**SMALL, location=8, heads=2)
    torch.manual_seed(0)
    parts = recipe.parts(about.vocab, store.layout, about.classes)
    optimizer = torch.optim.Adam(parts.parameters(), 0.01)
    for _ in range(160):
        loss = recipe.xe(parts, batch, Clock(0, 0))["xe"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    decoded = decoding.greedy(parts.captioner, parts.captioner.encode(batch.regions), 8)
    assert decoded.tokens.tolist() == batch.targets[:, : decoded.tokens.shape[1]].tolist()
    place = {e.id: int(e.gold[0].boxes[0][0]) // 10 for e in dataset}
    assert (decoded.attn[:, 1].argmax(-1) == torch.tensor([place[id] for id in batch.ids])).float().mean() > 0.75
