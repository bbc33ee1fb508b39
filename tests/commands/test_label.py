"""`groundling label` and `groundling score labels` on drawn scenes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from labelled_scenes import scenes as scenes  # a fixture
from rich.progress import Progress

from groundling.cli import main
from groundling.labels import engine, formats


@pytest.fixture(scope="module")
def labels(scenes: Path) -> Path:
    """All scenes, labelled."""
    out = scenes / "labels"
    assert run("label", scenes / "scenes", "--out", out, "--workers", 1, *model(scenes), "--min-confidence", 0) == 0
    return out


def model(scenes: Path) -> list[object]:
    return ["--model", scenes / "model", "--regions", scenes / "regions"]


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_labels_say_what_where_and_why_not(scenes: Path, labels: Path) -> None:
    images = list(engine.Labelled(str(labels)))
    assert len(images) == 30
    for image in images:
        for label in image.labels:
            assert label.boxes and label.mentions and 0 <= label.confidence <= 1
            assert label.phrase in [image.phrase(mention) for mention in label.mentions]


def test_they_are_exported_above_a_confidence(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("label", "--out", labels, "--to", "coco", "--to", "odvg", "--min-confidence", 0) == 0
    everything = sum(len(image.labels) for image in formats.read("coco", labels / "coco"))
    assert run("label", "--out", labels, "--to", "coco", "--min-confidence", 1) == 0
    assert sum(len(image.labels) for image in formats.read("coco", labels / "coco")) < everything
    assert (labels / "odvg" / "odvg.jsonl").exists()


def test_labels_are_scored_and_calibrated(
    scenes: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "labels.json"
    data = ["--data", scenes / "scenes"]
    assert run("score", "labels", labels, *data, "--calibrate", kept, "--json") == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["images"] == 30 and told["entities"] > 30
    curve = told["calibrated"]["curve"]
    assert all(0 <= row["precision"] <= 1 for row in curve)
    assert [row["recall"] for row in curve] == sorted((row["recall"] for row in curve), reverse=True)
    half = told["calibrated"]
    assert 0 < half["images"] < 30 and half["at_threshold"]["threshold"] == json.loads(kept.read_text())["threshold"]
    assert run("score", "labels", labels, *data, "--against", labels) == 0
    out = capsys.readouterr().out
    assert "expected calibration error" in out and "difference +0.0000" in out and "p = 1.000" in out
    again = tmp_path / "again"
    assert run("label", scenes / "scenes", "--out", again, *model(scenes), "--workers", 1, "--calibration", kept) == 0
    before, after = (next(iter(engine.Labelled(str(out)))).labels[0].boxes[0] for out in (labels, again))
    assert before.score == after.score and before.confidence != after.confidence


def test_a_review_is_merged_and_the_confidence_fitted_to_it(
    scenes: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = list(engine.Labelled(str(labels)))
    rows = [
        {"image": image.id, "label": at, "action": "accept" if at % 2 else "reject"}
        for image in images
        for at, label in enumerate(image.labels)
        if label.kept
    ]
    (tmp_path / "review.json").write_text(json.dumps({"format": 1, "decisions": rows}))
    out = ["--out", labels, "--apply", tmp_path / "review.json"]
    assert run("label", *out, "--recalibrate", "--to", "jsonl", "--review", tmp_path / "next.html") == 0
    found = list(formats.read("jsonl", labels / "jsonl"))
    kept = sum(len(image.kept) for image in found)
    assert kept == sum(row["action"] == "accept" for row in rows) > 0
    assert json.loads((labels / "calibration.json").read_text())["boxes"] >= len(rows)
    assert "review.json" in (tmp_path / "next.html").read_text()


def test_a_grounder_is_adapted_by_captions_alone_and_labels(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundling.labels.adaptation.FEWEST", 10)
    monkeypatch.setattr("groundling.labels.adaptation.HELD_OUT", 3)
    words = ["label", scenes / "scenes", "--adapt", "--out", tmp_path / "out", *model(scenes), "--workers", 1]
    assert run(*words) == 0
    assert "separation" in (told := capsys.readouterr().out) and "held-out images" in told
    assert len(list(engine.Labelled(str(tmp_path / "out")))) == 30
    assert (tmp_path / "out" / "grounder" / "model.safetensors").exists()
    assert run(*words) == 0
    assert "adapted before, and kept" in capsys.readouterr().out


def test_the_bar_moves_with_each_image(scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 images are one shard: what the bar shows while it is labelled lies between 0 and 30."""
    shown = set()
    update = Progress.update

    def noted(self: Progress, task: Any, **more: Any) -> None:
        shown.add((more["completed"], more["total"]))
        time.sleep(0.001)
        update(self, task, **more)

    monkeypatch.setattr(Progress, "update", noted)
    monkeypatch.setattr("groundling.progress.SECONDS", 0.001)
    assert run("label", scenes / "scenes", "--out", tmp_path, *model(scenes), "--workers", 1) == 0
    assert {total for _, total in shown} == {30} and (30, 30) in shown
    assert any(0 < done < 30 for done, _ in shown)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ([], "name DATA to label"),
        (["--recalibrate"], "--apply review.json"),
        (["nowhere.csv"], "no such file or folder"),
        (["memory://empty"], "no .tar and no .parquet"),
        (["--to", "coco"], "no labels here"),
        (["memory://tars/scenes.tar", "--adapt"], "--adapt trains on this machine"),
    ],
)
def test_errors_are_one_line_with_the_cure(
    words: list[str], cure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("label", *words, "--out", tmp_path / "out") == 2
    err = capsys.readouterr().err.strip()
    assert cure in err and "\n" not in err
