"""`groundling score captions --metrics grounding`, `score human` and `score foils`, on drawn scenes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundling.cli import main
from groundling.data.dataset import load


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def corpus(grounded: Path) -> list[tuple[str, str, list[str]]]:
    """(file, caption, references) of some images: the first caption against the others."""
    examples = load(grounded / "scenes").examples[:8]
    return [(Path(e.media).name, e.captions[0].text, [c.text for c in e.captions[1:]]) for e in examples]


def test_grounding_is_told_for_each_caption_and_entries_may_share_an_image(
    grounded: Path, corpus: list[tuple[str, str, list[str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, caption, references = corpus[0]
    images = [{"id": i, "file_name": file} for i in (1, 2)]
    captions = [{"image_id": i, "caption": text} for i in (1, 2) for text in references]
    (tmp_path / "refs.json").write_text(json.dumps({"images": images, "annotations": captions}))
    pred = [{"image_id": 1, "caption": caption}, {"image_id": 2, "caption": "quickly and there"}]
    (tmp_path / "pred.json").write_text(json.dumps(pred))
    words = ["score", "captions", "--pred", tmp_path / "pred.json", "--refs", tmp_path / "refs.json"]
    words += ["--model", grounded / "model", "--metrics", "grounding,grounding-ref", "--json", "--per-image"]
    capsys.readouterr()
    assert run(*words, "--images", grounded / "scenes") == 0
    found = json.loads(capsys.readouterr().out)
    alone, joined = found["per_image"]["grounding"], found["per_image"]["grounding-ref"]
    assert 0 < alone["1"] <= 1 and alone["2"] == 0  # no noun phrase
    assert joined["1"] != alone["1"]
    assert "form:evidence-of-phrases-and-words|grounder:" in found["scores"][0]["signature"]
    assert run(*words, "--regions", grounded / "regions") == 0
    assert json.loads(capsys.readouterr().out)["per_image"]["grounding"]["1"] == pytest.approx(alone["1"], abs=1e-2)
    assert run(*words) == 2
    assert "--images FOLDER, or --regions STORE" in capsys.readouterr().err


def test_agreement_with_people_is_told_for_every_metric(
    grounded: Path, corpus: list[tuple[str, str, list[str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The captions of an image are rated 4 and those of the next image 1: metrics of words must agree with that."""
    rows = ["image,caption,rating,reference"]
    for (file, caption, references), (_, other, _) in zip(corpus, corpus[1:], strict=False):
        rows += [f'{file},"{caption}",4,"{references[0]}"', f'{file},"{other}",1,"{references[0]}"']
    (tmp_path / "ratings.csv").write_text("\n".join(rows))
    words = ["score", "human", tmp_path / "ratings.csv", "--metrics", "rouge,grounding", "--json"]
    capsys.readouterr()
    assert run(*words, "--regions", grounded / "regions", "--model", grounded / "model") == 0
    found = json.loads(capsys.readouterr().out)
    assert [score["metric"] for score in found["scores"]] == ["ROUGE-L", "grounding"]
    assert found["scores"][0]["tau_c"] > 0.2
    assert run("score", "human", tmp_path / "ratings.csv", "--metrics", "rouge") == 0
    assert "tau_b" in capsys.readouterr().out


def test_references_are_asked_for_where_a_metric_needs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ratings.csv").write_text("image,caption,rating\n1,a cat,1\n")
    assert run("score", "human", tmp_path / "ratings.csv", "--metrics", "rouge") == 2
    assert "no references of '1': give --refs" in capsys.readouterr().err


def test_foils_are_evaluated_and_verdicts_told_by_frequency(grounded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["score", "foils", grounded / "scenes", "--regions", grounded / "regions", "--model", grounded / "model"]
    capsys.readouterr()
    assert run(*words, "--split", "train", "--images", 20, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["foils"] > 10
    assert all(0 <= value <= 1 for value in found["scores"].values())
    assert sum(row["true"]["n"] for row in found["verdicts"]) == found["foils"]
