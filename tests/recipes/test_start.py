"""Runs that begin with another: warm starts, fine-tuning, teachers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import planted
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.errors import GroundlingError, RegionMismatch
from groundling.inference.links import rerank
from groundling.recipes import Model, TrainingContext, load
from groundling.recipes._teachers import Adapted, matcher_of, teacher
from groundling.recipes.matcher_scan import MatcherScan
from groundling.recipes.scst import Scst
from groundling.recipes.updown import Updown
from groundling.regions.store import Store
from groundling.tensors import Decoding, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.run import begin, train
from groundling.training.stages import Parts

SMALL = Updown.of(hidden=8, embed=8, attention=8, dropout=0.0, epochs=1, batch=8, min_count=1)
FINISH = Scst.of(epochs=1, samples=2, batch=8)


@pytest.fixture
def world(tmp_path: Path) -> tuple[Dataset, Store, Path]:
    """Data, its regions and a captioner that was trained on them for an epoch."""
    dataset, store = planted.make(tmp_path / "store", images=20)
    train(SMALL, dataset.split("train"), dataset.split("val"), store, tmp_path / "run")
    return dataset, store, tmp_path / "run"


def test_a_fine_tune_recipe_goes_on_with_the_model_and_remembers_what_made_it(
    world: tuple[Dataset, Store, Path], tmp_path: Path
) -> None:
    dataset, store, run = world
    train(FINISH, dataset.split("train"), dataset.split("val"), store, tmp_path / "end", start=run)
    before, after = load(run), load(tmp_path / "end")
    assert after.recipe == SMALL
    assert after.fine_tuning == (FINISH,)
    assert after.vocab == before.vocab
    moved = [not torch.equal(a, b) for a, b in zip(before.parts.parameters(), after.parts.parameters(), strict=True)]
    assert any(moved)
    near = max(
        float((a - b).abs().max()) for a, b in zip(before.parts.parameters(), after.parts.parameters(), strict=True)
    )
    assert near < 0.01  # a step or two with a rate of 5e-5 away, not fresh weights


def test_a_fine_tune_recipe_without_a_model_says_what_is_missing(
    world: tuple[Dataset, Store, Path], tmp_path: Path
) -> None:
    dataset, store, _ = world
    with pytest.raises(GroundlingError, match="scst goes on with a trained model.*--start"):
        train(FINISH, dataset.split("train"), dataset.split("val"), store, tmp_path / "end")


def test_a_warm_start_takes_words_and_all_weights_that_fit(world: tuple[Dataset, Store, Path]) -> None:
    dataset, store, run = world
    few = replace(dataset, examples=dataset.examples[:2])  # would make a smaller vocabulary
    origin = load(run)
    same = begin(SMALL, few, store, run)
    assert same.vocab == origin.vocab
    assert same.groundable == origin.groundable != groundable_words(few)  # else the encoding of classes is new
    assert all(torch.equal(value, origin.parts.state_dict()[k]) for k, value in same.parts.state_dict().items())
    other = begin(SMALL.changed(attention=5), few, store, run)
    assert torch.equal(other.parts.captioner.embed.weight, origin.parts.captioner.embed.weight)
    assert other.parts.captioner.attend.weigh.weight.shape == (1, 5)


def test_a_start_of_which_nothing_fits_is_refused(world: tuple[Dataset, Store, Path]) -> None:
    dataset, store, run = world
    with pytest.raises(GroundlingError, match="nothing of .*run fits this recipe"):
        begin(Other.of(min_count=1), dataset, store, run)


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


def test_a_fine_tune_recipe_sees_as_many_regions_as_the_model_that_it_goes_on_with(
    world: tuple[Dataset, Store, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, store, _ = world
    ways = dataset.split("train"), dataset.split("val"), store
    train(SMALL.changed(regions_per_image=3), *ways, tmp_path / "three")
    seen, batch = set(), Store.batch

    def spy(store: Store, ids: Sequence[str], limit: int | None = None) -> Regions:
        seen.add(limit)
        return batch(store, ids, limit)

    monkeypatch.setattr(Store, "batch", spy)
    train(FINISH, *ways, tmp_path / "end", start=tmp_path / "three")
    assert seen == {3}


def test_a_fine_tune_recipe_of_a_model_that_makes_no_captions_is_refused(
    world: tuple[Dataset, Store, Path], tmp_path: Path
) -> None:
    dataset, store, _ = world
    matcher = MatcherScan.of(hidden=8, embed=8, epochs=1, min_count=1)
    ways = dataset.split("train"), dataset.split("val"), store
    train(matcher, *ways, tmp_path / "matcher")
    with pytest.raises(GroundlingError, match="matcher_scan makes no captions"):
        train(FINISH, *ways, tmp_path / "end", start=tmp_path / "matcher")


class Echo(nn.Module):
    """A matcher that returns the words that it got."""

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return words


def test_a_teacher_reads_its_own_words(world: tuple[Dataset, Store, Path]) -> None:
    """Pupil: <pad> <bos> <eos> <unk> dog cat emu. Teacher: ... cat dog. So 4 5 6 are 5 4 3 (unknown)."""
    dataset, store, _ = world
    theirs = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", "cat", "dog"))
    ids = torch.tensor(theirs.encode(("<pad>", "<bos>", "<eos>", "<unk>", "dog", "cat", "emu")))
    adapted, words = Adapted(Echo(), ids, 100), torch.tensor([[4, 5, 6, 2, 0]])
    assert adapted.rate(store.batch(["0"]), words, torch.tensor([0])).tolist() == [[5, 4, 3, 2, 0]]


def test_a_teacher_sees_the_regions_that_it_was_trained_with_and_looks_at_no_others(
    world: tuple[Dataset, Store, Path],
) -> None:
    """Three of five: as if the pupil's images had no more, and 0 for the rest, or the 2/5 that chance gives them."""
    dataset, store, run = world
    pupil = load(run)
    made = MatcherScan.of(hidden=8, embed=8, regions_per_image=3)
    torch.manual_seed(0)
    own = replace(pupil, recipe=made, parts=made.parts(pupil.vocab, store.layout, pupil.groundable))
    taught: Any = matcher_of(own, "matcher", pupil.vocab, store.fingerprint)
    batch = next(Loader(dataset, store, pupil.vocab, batch_size=4, length=16)(0))
    few = replace(batch, regions=store.batch(batch.ids, 3))
    matcher = own.parts.matcher
    look, told = taught.attention(batch), (batch.targets, batch.image_of)
    torch.testing.assert_close(look[..., :3], matcher.attention(few))
    assert look.shape[-1] == planted.REGIONS and not look[..., 3:].any()
    point, narrow = taught.point(batch.regions, *told), matcher.point(few.regions, *told)
    torch.testing.assert_close(point[..., :3], 0.6 * narrow)
    torch.testing.assert_close(point[..., 3:], 0.2 * narrow.sum(-1, keepdim=True).expand(-1, -1, 2))
    torch.testing.assert_close(taught.rate(batch.regions, *told), matcher.rate(few.regions, *told))
    assert not torch.allclose(matcher.rate(few.regions, *told), matcher.rate(batch.regions, *told))


class Second(nn.Module):
    """A matcher that sees the word 4, and no other, in the second region."""

    def point(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        second = F.one_hot(torch.tensor(1), regions.valid.shape[1]) * 1.0
        return (words == 4)[..., None] * second


def test_a_second_look_does_not_rule_out_what_the_matcher_has_not_seen() -> None:
    """Of four real regions two are seen. α = (0, 1/2, 1/4, 1/4), and 0 for padding; β = (.1, .1, .7, .1).

    √(.1 · 1/2) : √(.7 · 1/4) : √(.1 · 1/4) at an equal trust: the captioner's own region is still the first.
    """
    places = torch.tensor([[20.0 * i, 0, 20 * i + 10, 10] for i in range(5)])
    regions = Regions.of(torch.zeros(5, 2), places, (100, 10), valid=torch.tensor([True] * 4 + [False]))
    words, beta = torch.tensor([[4, 2]]), torch.tensor([0.1, 0.1, 0.7, 0.1, 0])
    decoded = Decoding(words, torch.zeros(1, 2), beta.expand(1, 2, 5), words)
    found = rerank(decoded, regions, Adapted(Second(), torch.arange(5), 2).point, 0.5)
    expected = torch.tensor([0, 0.05, 0.175, 0.025, 0]).sqrt()
    torch.testing.assert_close(found.attn[0, 0], expected / expected.sum())
    torch.testing.assert_close(found.attn[0, 1], beta)
    assert found.picks is not None and found.picks[0, 0].tolist() == [False, False, True, False, False]


def test_a_captioner_is_no_teacher_and_other_regions_are_refused(world: tuple[Dataset, Store, Path]) -> None:
    dataset, store, run = world
    model: Model = load(run)
    context = TrainingContext(dataset, model.vocab, store.layout, store.fingerprint, groundable_words(dataset))
    with pytest.raises(GroundlingError, match="a model of updown, which matches no words.*two_branch"):
        teacher(run, context)
    with pytest.raises(RegionMismatch):
        begin(SMALL, dataset, _Elsewhere(store), run)  # type: ignore[arg-type]


class _Elsewhere:
    """A store of another region source."""

    def __init__(self, store: Store) -> None:
        self.layout, self.fingerprint = store.layout, replace(store.fingerprint, version="2")
