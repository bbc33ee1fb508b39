"""`groundling adapt` on drawn scenes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from groundling import recipes
from groundling.cli import main
from groundling.errors import GroundlingError
from groundling.files import check_manifest
from groundling.inference.calibration import SEPARATION
from groundling.inference.evidence import read_calibration
from groundling.parallel import torch_threads
from groundling.text import words
from groundling.training.adapt import _standard_error
from groundling.training.extend import extended
from groundling.types import Score

GROUNDER = ["--joint", 16, "--embed", 8, "--hidden", 8, "--epochs", 1, "--batch", 8, "--min-count", 1, "--distill", 0]
CAPTIONER = ["--hidden", 16, "--embed", 16, "--attention", 16, "--epochs", 1, "--min-count", 1]


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes, their regions, a captioner and a grounder that know a little of them."""
    place = tmp_path_factory.mktemp("adapt")
    assert run("scenes", place / "scenes", "--images", 40) == 0
    data = ["--data", place / "scenes", "--regions", place / "regions"]
    store = ["--source", "scenes", "--out", place / "regions", "--workers", 1]
    assert run("regions", "extract", place / "scenes", *store) == 0
    assert run("train", "two_branch", *data, "--out", place / "grounder", *GROUNDER) == 0
    assert run("train", "updown", *data, "--out", place / "captioner", *CAPTIONER) == 0
    return place


def test_a_grounder_is_calibrated_when_its_training_ends(place: Path) -> None:
    assert read_calibration(place / "grounder") is not None


def test_neither_model_ends_below_its_start_and_both_numbers_are_told(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["--model", place / "captioner", "--grounder", place / "grounder"]
    data = ["--data", place / "scenes", "--regions", place / "regions"]
    capsys.readouterr()
    assert run("adapt", *data, *start, "--out", tmp_path / "mine", "--epochs", 2) == 0
    told = capsys.readouterr().out
    for what in ("grounder", "captioner"):
        before, after = map(float, re.search(rf"{what}: \S+ (\S+) -> (\S+) on", told).groups())  # type: ignore[union-attr]
        assert after >= before
        assert recipes.load(tmp_path / "mine" / what).parts is not None
    assert read_calibration(tmp_path / "mine" / "grounder") is not None
    picture = next(iter(sorted((place / "scenes").rglob("*.png"))))
    assert run("caption", picture, "--model", tmp_path / "mine") == 0
    assert json.loads(capsys.readouterr().out)["caption"]


def test_training_that_makes_it_worse_is_undone(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a learning rate that destroys the weights, what is left is what was there before, byte for byte."""
    from groundling.training import adapt

    monkeypatch.setitem(adapt.CAPTIONER, "lr", 50.0)
    monkeypatch.setitem(adapt.GROUNDER, "lr", 50.0)
    monkeypatch.setitem(adapt.GROUNDER, "epochs", 1)
    good = tmp_path / "good"
    shutil.copytree(place / "captioner", good)
    start = ["--model", good, "--grounder", place / "grounder"]
    data = ["--data", place / "scenes", "--regions", place / "regions"]
    capsys.readouterr()
    assert run("adapt", *data, *start, "--out", tmp_path / "mine", "--epochs", 1) == 0
    told = capsys.readouterr().out
    for what, folder in (("captioner", good), ("grounder", place / "grounder")):
        if f"{what}: " in told and "left as it was" in next(x for x in told.splitlines() if x.startswith(what)):
            kept = tmp_path / "mine" / what / recipes.WEIGHTS
            assert kept.read_bytes() == (folder / recipes.WEIGHTS).read_bytes()
            assert check_manifest(kept.parent, required=True)
    assert "left as it was" in told


def test_new_words_get_rows_and_every_other_weight_is_kept(place: Path) -> None:
    model = recipes.load(place / "captioner")
    captions = [words.caption("a labrador beside a zyzzyva")] * 2
    bigger = extended(model, captions)
    new = bigger.vocab.words[len(model.vocab) :]
    assert {"labrador", "zyzzyva"} <= set(new) and bigger.vocab.words[: len(model.vocab)] == model.vocab.words
    grown = bigger.parts.state_dict()
    for name, old in model.parts.state_dict().items():
        same = grown[name] if grown[name].shape == old.shape else grown[name][: len(old)]
        assert torch.equal(same, old), name
    assert len(grown["captioner.embed.weight"]) == len(bigger.vocab)


def test_a_word_that_occurs_once_stays_unknown(place: Path) -> None:
    model = recipes.load(place / "captioner")
    assert extended(model, [words.caption("a zyzzyva")]).vocab == model.vocab


def test_what_captions_tell_of_a_grounder_must_rise_by_more_than_a_standard_error() -> None:
    """p = 0.75 of n = 300: √(0.75 · 0.25 / 300) = 0.025; accuracy by boxes may rise by anything."""
    assert _standard_error(Score(SEPARATION, 0.75, 300, "")) == pytest.approx(0.025)
    assert _standard_error(Score("recall@1", 0.75, 300, "")) == 0


@pytest.mark.parametrize(("asked", "threads"), [([], 1), (["--threads", 2], 2)])
def test_one_thread_trains_unless_more_are_asked_for(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[object], threads: int
) -> None:
    """The steps are small: threads that wait for each other cost more than they save. Afterwards all is as before."""
    seen = []

    def stop(*_: object) -> None:
        seen.append(torch.get_num_threads())
        raise GroundlingError("enough")

    monkeypatch.setattr("groundling.training.adapt.adapt_grounder", stop)
    data = ["--data", place / "scenes", "--regions", place / "regions"]
    start = ["--model", place / "captioner", "--grounder", place / "grounder"]
    with torch_threads(3):
        assert run("adapt", *data, *start, "--out", tmp_path, *asked) == 2
        assert torch.get_num_threads() == 3
    assert seen == [threads]
