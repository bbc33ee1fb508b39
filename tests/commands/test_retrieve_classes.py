"""`groundling retrieve` and `groundling score classes`: a run, its data and its regions in, numbers out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from groundling.cli import main
from groundling.data.dataset import load
from groundling.errors import GroundlingError
from groundling.evaluation.region_classes import by_detector, named_regions
from groundling.metrics.evaluation import classify_examples
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.text.classes import Classes
from groundling.types import Caption, Example, Fingerprint, Phrase


class Files(NamedTuple):
    data: Path
    store: Path
    run: Path

    def words(self, *command: str) -> list[str]:
        return [*command, "--data", str(self.data), "--regions", str(self.store), "--split", "val"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Scenes, and a captioner with classes that was trained for an epoch."""
    folder = tmp_path_factory.mktemp("files")
    made = Files(folder / "scenes", folder / "store", folder / "run")
    scenes = ["scenes", str(made.data), "--images", "30", "--size", "96", "--splits", "0.5", "0.4", "0.1"]
    assert main([*scenes, "--workers", "1"]) == 0
    assert (
        main(["regions", "extract", str(made.data), "--source", "scenes", "--workers", "1", "--out", str(made.store)])
        == 0
    )
    sizes = {"hidden": 8, "embed": 8, "attention": 8, "location": 4, "min-count": 1, "epochs": 1, "threads": 1}
    small = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    where = ["--data", str(made.data), "--regions", str(made.store)]
    assert main(["train", "updown_aware", *where, *small, "--out", str(made.run)]) == 0
    return made


def scores(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return {score["name"]: score for score in json.loads(capsys.readouterr().out)["scores"]}


def test_a_captioner_retrieves_images_by_its_own_captions(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """After one epoch all captions are alike: hardly any finds its image, and all of 12 are among the first 12."""
    found = scores(capsys, *files.words("retrieve", str(files.run)))
    assert list(found) == ["R@1", "R@5", "R@10"]
    assert found["R@1"]["n"] == 12 and "by:logp" in found["R@1"]["signature"]
    assert found["R@1"]["value"] <= found["R@5"]["value"] <= found["R@10"]["value"] <= 1
    assert scores(capsys, *files.words("retrieve", str(files.run)), "--limit", "5")["R@5"]["value"] == 1


def test_the_ranks_may_be_chosen(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    words = files.words("retrieve", str(files.run), "--threads", "1")
    found, usual = scores(capsys, *words, "--ks", "5,12"), scores(capsys, *words)
    assert {name: score["value"] for name, score in found.items()} == {"R@5": usual["R@5"]["value"], "R@12": 1}
    with pytest.raises(SystemExit):
        main([*words, "--ks", "0,5"])


def test_a_shortlist_tells_its_recall(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    found = scores(capsys, *files.words("retrieve", str(files.run)), "--shortlist", "6")
    assert 0 <= found["shortlist recall"]["value"] <= 1
    assert "shortlist:6" in found["shortlist recall"]["signature"]
    assert "shortlist=6" in found["R@1"]["signature"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--matcher", "x", "--shortlist", "3"], "--shortlist is for log p"),
        (["--matcher", "RUN"], "updown_aware trains no matcher"),
    ],
)
def test_what_does_not_go_together_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    words = [str(files.run) if word == "RUN" else word for word in words]
    assert main([*files.words("retrieve", str(files.run)), *words]) == 2
    assert told in capsys.readouterr().err


def test_classes_of_regions_are_scored_by_command(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    found = scores(capsys, *files.words("score", "classes", str(files.run)))["cls"]
    assert 0 <= found["value"] < 0.5  # nothing teaches this model classes
    assert "by:model" in found["signature"] and "split:val" in found["signature"]


def test_regions_named_by_the_truth_score_what_the_proposals_allow(files: Files) -> None:
    """One region covers the box of the dog, the other nothing: only the class of the first is asked for."""
    data, store = load(files.data), Store.open(files.store)
    word, box = ("dog",), (10.0, 10.0, 50.0, 50.0)
    first = data.split("val").examples[0]
    example = Example(
        first.id, "", first.size, (Caption("dog", word, ((0, 3),)),), (Phrase(0, (0, 1), (box,), label="dog", head=0),)
    )
    boxes = np.array([[10, 10, 50, 50], [60, 10, 90, 50]], float)
    frames = np.zeros(2, np.intp)
    assert classify_examples({first.id: (boxes, ["dog", "cat"], frames)}, [example]).score().value == 1
    assert classify_examples({first.id: (boxes, ["cat", "dog"], frames)}, [example]).score().value == 0
    named = dict(named_regions(lambda r: [["dog"] * r.valid.shape[1]] * len(r), store, [first], 7, torch.device("cpu")))
    boxes, labels, frames = named[first.id]
    assert len(boxes) == len(labels) == len(frames) <= 7
    assert boxes.max() <= max(first.size)


def test_the_names_that_a_detector_gave_are_scored_without_a_run(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    found = scores(capsys, *files.words("score", "classes"))["cls"]
    assert found["value"] > 0.3  # it has seen other scenes
    assert "by:detector" in found["signature"]


def test_regions_without_labels_need_a_run() -> None:
    with pytest.raises(GroundlingError, match="name a RUN"):
        by_detector(Fingerprint("d", "1", 2), Classes((), {}))


def test_a_detector_names_a_region_where_its_label_is_a_word_for_a_class() -> None:
    """Classes person (man, person), dog (dogs) and orange, which has no form: the sky and unknown labels have none."""
    classes = Classes(("person", "dog", "orange"), {"person": "person", "man": "person", "dogs": "dog"})
    name = by_detector(Fingerprint("d", "1", 2, labels=("Person", "dogs", "sky", "orange")), classes)
    regions = Regions.of(
        torch.zeros(5, 2),
        torch.zeros(5, 4),
        (10, 10),
        labels=torch.tensor([[0, 1], [1, 0], [2, 0], [3, 0], [-1, -1]]),
        scores=torch.ones(5, 2),
    )
    assert name(regions) == [["person", "dog", "", "orange", ""]]


@pytest.mark.parametrize("what", ["classes", "attention"])
def test_a_run_is_tested_against_another(files: Files, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """Against itself no difference is real."""
    words = files.words("score", what, str(files.run))
    capsys.readouterr()
    assert main([*words, "--baseline", str(files.run), "--bootstrap", "20", "--json"]) == 0
    (test,) = json.loads(capsys.readouterr().out)["tests"]
    assert test["system"] == test["baseline"] and test["p_randomisation"] == 1.0
