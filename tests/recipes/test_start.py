"""Runs that begin with another: warm starts, finishes, teachers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import planted
import pytest
import torch
from torch import Tensor, nn

from groundling.data.dataset import Dataset
from groundling.errors import GroundlingError, RegionMismatch
from groundling.recipes import Given, Model, load
from groundling.recipes.run import begin, groundable_words, train
from groundling.recipes.scst import Scst
from groundling.recipes.teachers import Translated, teacher
from groundling.recipes.updown import Updown
from groundling.regions.store import Store
from groundling.tensors import Batch, Regions
from groundling.text.vocab import Vocabulary
from groundling.train.stages import Parts

SMALL = Updown(hidden=8, embed=8, attention=8, dropout=0.0, epochs=1, batch=8, min_count=1)
FINISH = Scst(epochs=1, samples=2, batch=8)


@pytest.fixture
def world(tmp_path: Path) -> tuple[Dataset, Store, Path]:
    """Data, its regions and a captioner that was trained on them for an epoch."""
    dataset, store = planted.make(tmp_path / "store", images=20)
    train(SMALL, dataset.split("train"), dataset.split("val"), store, tmp_path / "run")
    return dataset, store, tmp_path / "run"


def test_a_finish_goes_on_with_the_model_and_remembers_what_made_it(
    world: tuple[Dataset, Store, Path], tmp_path: Path
) -> None:
    dataset, store, run = world
    train(FINISH, dataset.split("train"), dataset.split("val"), store, tmp_path / "end", start=run)
    before, after = load(run), load(tmp_path / "end")
    assert after.recipe == SMALL
    assert after.finishes == (FINISH,)
    assert after.vocab == before.vocab
    moved = [not torch.equal(a, b) for a, b in zip(before.parts.parameters(), after.parts.parameters(), strict=True)]
    assert any(moved)
    near = max(
        float((a - b).abs().max()) for a, b in zip(before.parts.parameters(), after.parts.parameters(), strict=True)
    )
    assert near < 0.01  # a step or two with a rate of 5e-5 away, not fresh weights


def test_a_finish_without_a_model_says_what_is_missing(world: tuple[Dataset, Store, Path], tmp_path: Path) -> None:
    dataset, store, _ = world
    with pytest.raises(GroundlingError, match="scst goes on with a trained model.*--start"):
        train(FINISH, dataset.split("train"), dataset.split("val"), store, tmp_path / "end")


def test_a_warm_start_takes_words_and_all_weights_that_fit(world: tuple[Dataset, Store, Path]) -> None:
    dataset, store, run = world
    few = replace(dataset, examples=dataset.examples[:2])  # would make a smaller vocabulary
    origin = load(run)
    same = begin(SMALL, few, store, run)
    assert same.vocab == origin.vocab
    assert all(torch.equal(value, origin.parts.state_dict()[k]) for k, value in same.parts.state_dict().items())
    other = begin(replace(SMALL, attention=5), few, store, run)
    assert torch.equal(other.parts.captioner.embed.weight, origin.parts.captioner.embed.weight)
    assert other.parts.captioner.attend.weigh.weight.shape == (1, 5)


def test_a_start_of_which_nothing_fits_is_refused(world: tuple[Dataset, Store, Path]) -> None:
    dataset, store, run = world
    with pytest.raises(GroundlingError, match="nothing of .*run fits this recipe"):
        begin(Other(min_count=1), dataset, store, run)


class Other(Updown):
    def parts(self, *about: object) -> Parts:
        return Parts(matcher=nn.Linear(2, 2))


def test_another_start_is_another_run(world: tuple[Dataset, Store, Path], tmp_path: Path) -> None:
    """A run is not resumed with weights that it did not begin with."""
    dataset, store, run = world
    ways = dataset.split("train"), dataset.split("val"), store, tmp_path / "end"
    train(FINISH, *ways, start=run)
    train(FINISH, *ways, start=run)
    train(SMALL, dataset.split("train"), dataset.split("val"), store, tmp_path / "run2", seed=1)
    with pytest.raises(GroundlingError, match="other settings: begins with was"):
        train(FINISH, *ways, start=tmp_path / "run2")


class Echo(nn.Module):
    """A matcher that tells what it heard."""

    def look(self, batch: Batch) -> Tensor:
        return batch.targets

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return words


def test_a_teacher_hears_its_own_words(world: tuple[Dataset, Store, Path]) -> None:
    """Pupil: <pad> <bos> <eos> <unk> dog cat emu. Teacher: ... cat dog. So 4 5 6 are 5 4 3 (unknown)."""
    dataset, store, _ = world
    theirs = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", "cat", "dog"))
    heard = Translated(Echo(), torch.tensor(theirs.encode(("<pad>", "<bos>", "<eos>", "<unk>", "dog", "cat", "emu"))))
    words = torch.tensor([[4, 5, 6, 2, 0]])
    assert heard.rate(store.batch(["0"]), words, torch.tensor([0])).tolist() == [[5, 4, 3, 2, 0]]


def test_a_captioner_is_no_teacher_and_other_regions_are_refused(world: tuple[Dataset, Store, Path]) -> None:
    dataset, store, run = world
    model: Model = load(run)
    given = Given(dataset, model.vocab, store.layout, store.fingerprint, groundable_words(dataset))
    with pytest.raises(GroundlingError, match="a model of updown, which matches no words.*two_branch"):
        teacher(run, given)
    with pytest.raises(RegionMismatch):
        begin(SMALL, dataset, _Elsewhere(store), run)  # type: ignore[arg-type]


class _Elsewhere:
    """A store of another region source."""

    def __init__(self, store: Store) -> None:
        self.layout, self.fingerprint = store.layout, replace(store.fingerprint, version="2")
