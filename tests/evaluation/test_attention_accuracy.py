"""Attention accuracy: what a model attends to while it reads the captions of people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted
import pytest
import torch
from torch import Tensor, nn

from groundling.cli import main
from groundling.data.dataset import Dataset
from groundling.errors import DataError, RegionMismatch
from groundling.evaluation.attention_accuracy import attention_accuracy
from groundling.metrics.evaluation import ground_given
from groundling.recipes import Model, save
from groundling.recipes.matcher_scan import MatcherScan
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.updown import Updown
from groundling.regions.store import Store, Writer
from groundling.tensors import Batch, Decoding, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.stages import Parts
from groundling.types import Caption, Example, Fingerprint, Phrase

SMALL = Updown.of(hidden=8, embed=8, attention=8, min_count=1)


class Knows(nn.Module):
    """A matcher that finds dogs, cats and balls, and has no opinion of other words."""

    def attention(self, batch: Batch) -> Tensor:
        dims = [planted.THINGS.index(word) if word in planted.THINGS[:3] else -1 for word in batch.vocab.words]
        dim = torch.tensor(dims)[batch.targets]
        shown = batch.regions.feats[batch.image_of].transpose(1, 2)[torch.arange(len(dim))[:, None], dim]
        return nn.functional.one_hot(shown.argmax(-1), shown.shape[-1]) * (dim >= 0)[..., None].float()


def matcher(dataset: Dataset, store: Store) -> Model:
    vocab = Vocabulary.build((e.captions[0].tokens for e in dataset), 1)
    parts, classes = Parts(matcher=Knows()), groundable_words(dataset)
    return Model(MatcherScan(), parts, vocab, store.fingerprint, store.layout, classes)


def captioner(dataset: Dataset, store: Store) -> Model:
    torch.manual_seed(0)
    made = matcher(dataset, store)
    return replace(made, recipe=SMALL, parts=SMALL.parts(made.vocab, store.layout, made.groundable))


@pytest.fixture
def world(tmp_path: Path) -> tuple[Dataset, Store]:
    return planted.make(tmp_path / "store", images=30)


def test_the_accuracy_is_the_mean_over_classes_and_words_without_a_place_are_missed(
    world: tuple[Dataset, Store],
) -> None:
    """It is right wherever it has an opinion, of 3 classes of 6: 1/2, however often each occurs."""
    dataset, store = world
    found = attention_accuracy(matcher(dataset, store), dataset, store, batch=7)
    score = found.statistics()["accuracy"].score()
    assert score.value == pytest.approx(0.5)
    assert score.n == 30
    assert "iou:0.5" in score.signature and "text:given" in score.signature and "data:planted" in score.signature
    classes = found.by_class()
    assert sum(words for _, words in classes.values()) == 60
    assert all(hits == (words if name in planted.THINGS[:3] else 0) for name, (hits, words) in classes.items())
    assert [words for _, words in classes.values()] == sorted((w for _, w in classes.values()), reverse=True)


def test_only_the_split_is_read_by_classes_of_the_training_split(world: tuple[Dataset, Store]) -> None:
    dataset, store = world
    found = attention_accuracy(matcher(dataset, store), dataset, store, "val")
    assert found.statistics()["accuracy"].score().n == 6
    assert "split:val" in found.statistics()["accuracy"].signature


def test_a_captioner_is_scored_by_its_attention_when_the_word_is_next(world: tuple[Dataset, Store]) -> None:
    dataset, store = world
    made = captioner(dataset, store)
    found = attention_accuracy(made, dataset, store)
    speaker, hits = made.captioner, 0
    for example in dataset:
        regions = store.batch([example.id])
        encoded = speaker.encode(regions)
        state, token = speaker.start(encoded), torch.tensor([1])
        for t, word in enumerate(made.vocab.encode(example.captions[0].tokens)):
            _, glimpse, state = speaker.step(token, encoded, state)
            token = torch.tensor([word])
            true = [p.boxes[0] for p in example.gold if p.head == t]
            hits += bool(true) and tuple(regions.boxes[0, int(glimpse.attn.argmax())].tolist()) == true[0]
    assert 0 < hits < 60
    assert sum(hit for hit, _ in found.by_class().values()) == hits


class Branches(nn.Module):
    """A captioner of two branches that know every word: one looks at the left half of its thing, one at the right."""

    def encode(self, regions: Regions) -> Tensor:
        return torch.zeros(len(regions))

    def forward(self, encoded: Tensor, inputs: Tensor, targets: Tensor) -> Decoding:
        n, t = targets.shape
        halves = torch.eye(3)[:2, None, None].expand(2, n, t, 3)
        mean = torch.tensor([0.3, 0.3, 0.4]).expand(n, t, 3)  # the third region is elsewhere
        read = [Decoding(targets, torch.zeros(n, t), attn, targets) for attn in (*halves, mean)]
        return replace(read[2], branches=tuple(read[:2]))


def test_several_branches_are_scored_by_the_box_around_what_they_choose_not_by_their_mean(tmp_path: Path) -> None:
    """The thing is 20 wide, each branch chooses 10 of it, their mean is elsewhere: right, by the union alone."""
    sentence = planted.caption("dog", "cat")
    gold = (Phrase(0, (0, 2), boxes=((0.0, 0.0, 20.0, 10.0),), head=1, label="dog"),)
    dataset = Dataset("halves", tmp_path, (Example("0", "", (60, 10), (sentence,), gold),))
    with Writer(tmp_path / "store", Fingerprint("halves", "1", planted.DIM)) as writer:
        boxes = torch.tensor([[0.0, 0, 10, 10], [10, 0, 20, 10], [40, 0, 60, 10]])
        writer.add("0", Regions.of(torch.ones(3, planted.DIM), boxes, (60, 10)))
    store = Store.open(tmp_path / "store")
    made = matcher(dataset, store)
    made = replace(made, recipe=MultiBranch.of(branches=2), parts=Parts(captioner=Branches()))
    assert attention_accuracy(made, dataset, store).to_dict() == {"accuracy": 1.0}


def test_regions_made_at_another_size_point_at_the_same_place(world: tuple[Dataset, Store]) -> None:
    dataset, store = world
    larger = tuple(
        replace(
            e,
            size=(e.size[0] * 4, e.size[1] * 2),
            gold=tuple(replace(p, boxes=tuple((4 * a, 2 * b, 4 * c, 2 * d) for a, b, c, d in p.boxes)) for p in e.gold),
        )
        for e in dataset
    )
    found = attention_accuracy(matcher(dataset, store), replace(dataset, examples=larger), store)
    assert found.to_dict()["accuracy"] == pytest.approx(0.5)


def test_long_captions_are_read_to_their_end(world: tuple[Dataset, Store]) -> None:
    dataset, store = world
    made = matcher(dataset, store)
    short = replace(made, recipe=MatcherScan.of(length=1))
    assert attention_accuracy(short, dataset, store).by_class() == attention_accuracy(made, dataset, store).by_class()


def test_what_cannot_be_scored_is_told(world: tuple[Dataset, Store], tmp_path: Path) -> None:
    dataset, store = world
    made = matcher(dataset, store)
    with pytest.raises(RegionMismatch):
        attention_accuracy(replace(made, fingerprint=replace(made.fingerprint, version="2")), dataset, store)
    unseen = replace(dataset[0], id="unseen")
    with pytest.raises(DataError, match="no regions of 1 of 31 images, such as 'unseen'.*extract"):
        attention_accuracy(made, replace(dataset, examples=(*dataset, unseen)), store)
    bare = replace(dataset, examples=tuple(replace(e, gold=()) for e in dataset))
    with pytest.raises(DataError, match="no phrase of this data has a box"):
        attention_accuracy(made, bare, store)


def test_videos_are_scored_frame_by_frame() -> None:
    """Two frames, the word drawn in the second alone: its box there counts, that of the first does not."""
    caption = Caption("a dog", ("a", "dog"), ((0, 1), (2, 5)))
    gold = (Phrase(0, (0, 2), ((0.0, 0.0, 10.0, 10.0),), frames=(1,), label="dog", head=1),)
    example = Example("v", "", (100, 100), (caption,), gold)
    right, wrong, none = (0.0, 0.0, 10.0, 10.0), (50.0, 50.0, 60.0, 60.0), (np.nan,) * 4
    for first, second, expected in ((wrong, right, 1.0), (right, wrong, 0.0), (right, none, 0.0)):
        places = {"v": [np.array([[none, none], [first, second]])]}
        assert ground_given(places, [example]).to_dict() == {"accuracy": expected}
    assert ground_given({}, [example]).to_dict() == {"accuracy": 0.0}
    assert ground_given({"v": [np.zeros((1, 2, 4))]}, [example]).to_dict() == {"accuracy": 0.0}  # cut before the word


def test_the_command_prints_the_score_and_the_classes(
    world: tuple[Dataset, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, store = world
    monkeypatch.setattr("groundling.data.dataset.load", lambda path, skip_bad: dataset)
    save(tmp_path / "run", captioner(dataset, store))
    command = ["score", "attention", str(tmp_path / "run"), "--data", "planted", "--regions", str(store.path)]
    assert main([*command, "--split", "val", "--bootstrap", "20", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    (score,) = whole["scores"]
    assert score["name"] == "accuracy" and score["n"] == 6
    shares = [one["hits"] / one["words"] for one in whole["by_class"].values()]
    assert score["value"] == pytest.approx(sum(shares) / len(shares))
    assert len(whole["intervals"]["accuracy"]) == 2
    assert main(command) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("accuracy") and "text:given" in printed[1]
    assert printed[-1].split()[:2] == ["all", "words"] and printed[-1].endswith("60")
