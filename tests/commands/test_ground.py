"""`groundling ground` and `groundling regions classes` on drawn scenes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from clips import write_clip
from PIL import Image

from groundling import inference
from groundling.cli import main
from groundling.errors import DataError, GroundlingError
from groundling.inference import evidence
from groundling.inference.grounder import best_similarity
from groundling.inference.phrases import as_caption
from groundling.report.picture import draw

TINY = ["--joint", 16, "--embed", 8, "--hidden", 8, "--epochs", 1, "--batch", 8, "--min-count", 1, "--distill", 0]


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes, their regions and a grounder that was calibrated on the training split, which is large enough."""
    place = tmp_path_factory.mktemp("ground")
    scenes, regions, model = place / "scenes", place / "regions", place / "model"
    assert run("scenes", scenes, "--images", 40) == 0
    assert run("regions", "extract", scenes, "--source", "scenes", "--out", regions, "--workers", 1) == 0
    assert run("train", "two_branch", "--data", scenes, "--regions", regions, "--out", model, *TINY) == 0
    return place


@pytest.fixture
def picture(place: Path) -> Path:
    return next(iter(sorted((place / "scenes").rglob("*.png"))))


def test_a_data_set_is_scored_by_both_conventions_and_its_calibration_is_kept(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", place / "scenes", "--regions", place / "regions", "--model", place / "model"]
    capsys.readouterr()
    assert run("ground", *data, "--split", "train", "--calibrate", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    for truth in ("any", "union"):
        scores = found[truth]["scores"]
        assert 0 <= scores["recall@1"] <= scores["recall@5"] <= scores["recall@10"] <= scores["upper_bound"] <= 1
        assert scores["phrases"] > 20
    kept = json.loads((place / "model" / evidence.CALIBRATION).read_text())
    assert kept == found["calibration"]
    assert evidence.read_calibration(place / "model") is not None
    assert run("ground", *data) == 0
    assert "upper_bound" in capsys.readouterr().out
    assert run("ground", *data, "--calibrate", "--learn-from", "val") == 2
    assert "--learn-from and --split are the same" in capsys.readouterr().err
    assert run("ground", *data, "--calibrate", "--learn-from", "train") == 2
    assert "needs regions of the source `photos`" in capsys.readouterr().err
    assert run("ground", *data, "--calibrate", "--contrast-from", *data[1::2][:2]) == 2
    assert "stands beside nouns that were learned" in capsys.readouterr().err


def test_phrases_of_a_sentence_are_found_and_drawn(
    place: Path, picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", place / "model"]
    outputs = [
        "--png",
        tmp_path / "p.png",
        "--heatmap",
        tmp_path / "heat",
        "--coco-boxes",
        tmp_path / "c.json",
        "--json",
    ]
    assert run("ground", picture, "a group of dogs near the red ball", *model, *outputs) == 0
    row = json.loads(capsys.readouterr().out)
    assert [found["phrase"] for found in row["phrases"]] == ["a group of dogs", "the red ball"]
    assert [row["sentence"][slice(*found["span"])] for found in row["phrases"]] == ["a group of dogs", "the red ball"]
    with Image.open(picture) as image, Image.open(tmp_path / "heat" / "2-the-red-ball.png") as heat:
        assert heat.size == image.size
        for found in row["phrases"]:
            left, top, right, bottom = found["box"]
            assert 0 <= left < right <= image.width and 0 <= top < bottom <= image.height
    with Image.open(tmp_path / "p.png") as drawn:
        assert drawn.height > 0
    coco = json.loads((tmp_path / "c.json").read_text())
    seen = [found for found in row["phrases"] if found["found"]]
    assert [category["name"] for category in coco["categories"]] == sorted(found["phrase"] for found in seen)
    for found, boxed in zip(seen, coco["annotations"], strict=True):
        left, top, right, bottom = found["box"]
        assert boxed["bbox"] == pytest.approx([left, top, right - left, bottom - top], abs=0.11)


def test_what_was_not_found_has_no_box_and_says_so() -> None:
    here = inference.GroundedPhrase("a dog", (0, 5), (1.0, 2.0, 3.0, 4.0), 0.9, 0.8)
    caption = as_caption([here, replace(here, phrase="a cat", evidence=0.1), replace(here, phrase="a car")])
    assert caption.text == "a dog · a cat (not found) · a car"
    assert [(caption.word(link), link.evidence) for link in caption] == [("a dog", 0.8), ("a car", 0.8)]
    assert [caption.text[slice(*span)] for span in caption.spans] == ["a dog", "a cat (not found)", "a car"]


def test_phrases_may_be_named_and_unknown_words_are_told(
    place: Path, picture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ground", picture, "--phrase", "the zeppelin", "--phrase", "dog", "--model", place / "model") == 0
    out = capsys.readouterr().out
    assert "never seen: zeppelin" in out
    assert "dog" in out


def test_in_python_it_takes_three_lines(place: Path, picture: Path) -> None:
    model = inference.load_grounder(place / "model")
    found = model.ground(picture, "a dog and a ball")
    assert [one.phrase for one in found] == ["a dog", "a ball"]
    with Image.open(picture) as image:
        assert draw(image, as_caption(found)).width >= image.width


def test_an_image_without_regions_has_no_place_for_anything(place: Path, picture: Path) -> None:
    """The store of a detector that found nothing in it; in a sum over images its evidence is the least there is."""
    model = inference.load_grounder(place / "model")
    none = model.regions(picture).first(0)
    ranking = model.rank(none, [["dog"], ["red", "ball"]])
    assert best_similarity(ranking.similarity).tolist() == [-1, -1]
    with pytest.raises(GroundlingError, match="no regions"):
        model.ground_regions(none, "a dog")


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"format": 1, "calibration": {"x": [1], "p": [3]}}'])
def test_a_damaged_calibration_is_named_with_its_cure(content: str, tmp_path: Path) -> None:
    (tmp_path / evidence.CALIBRATION).write_text(content)
    with pytest.raises(DataError, match="calibration.json is damaged.*--calibrate"):
        evidence.read_calibration(tmp_path)


def test_the_cost_of_an_image_is_told(place: Path, picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ground", picture, "--cost", "--json", "--model", place / "model") == 0
    rows = json.loads(capsys.readouterr().out)["cost"]
    assert rows[1]["gflops"] > 0
    assert all(row["ms"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name an IMAGE"),
        (["PICTURE"], "name what to find"),
        (["PICTURE", "quickly"], "no noun phrase"),
        (["PICTURE", "--phrase", "..."], "has no word"),
        (["--data", "SCENES"], "--regions"),
        (["PICTURE", "a dog", "--calibrate"], "--data DATA and --model RUN"),
        (["PICTURE", "a dog", "--learn-from", "train"], "add --calibrate"),
        (["PICTURE", "a dog", "--contrast-from", "data", "store"], "add --calibrate"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    place: Path, picture: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"PICTURE": str(picture), "SCENES": str(place / "scenes")}
    assert run("ground", *(names.get(word, word) for word in words), "--model", place / "model") == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "{}", '{"format": 1, "calibration": {"x": [2, 1], "p": [0, 1]}}'])
def test_a_damaged_calibration_is_named(place: Path, tmp_path: Path, content: str) -> None:
    shutil.copytree(place / "model", tmp_path / "model")
    (tmp_path / "model" / evidence.CALIBRATION).write_text(content)
    with pytest.raises(DataError, match=evidence.CALIBRATION):
        inference.load_grounder(tmp_path / "model")


def test_how_many_phrases_have_a_class_of_a_detector(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels.txt").write_text("person\ndog\n")
    assert run("regions", "classes", place / "scenes", "--labels", tmp_path / "labels.txt", "--json") == 0
    coverage = json.loads(capsys.readouterr().out)
    assert 0 < coverage["covered"] == sum(coverage["by_way"].values()) < coverage["phrases"]
    assert run("labels", place / "scenes", "--regions", place / "regions") == 0  # as it was called before
    shown = capsys.readouterr()
    assert "different phrases have one of" in shown.out
    assert shown.err == "groundling: the command labels is now `groundling regions classes`\n"


def test_ten_frames_of_a_video_file_are_grounded(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=24)
    capsys.readouterr()
    assert run("ground", clip, "a dog", "--model", place / "model", "--json") == 0
    frames = json.loads(capsys.readouterr().out)["frames"]
    assert [frame["frame"] for frame in frames] == list(range(10))
    assert all(len(frame["phrases"]) == 1 for frame in frames)


def test_a_video_is_grounded_frame_by_frame(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of pictures is a clip: each frame gets what it would get as a picture."""
    pictures = sorted((place / "scenes").rglob("*.png"))[:2]
    for i, file in enumerate(pictures):
        (tmp_path / "clip").mkdir(exist_ok=True)
        shutil.copy(file, tmp_path / "clip" / f"{i}.png")
    model = ["--model", place / "model"]
    capsys.readouterr()
    assert run("ground", tmp_path / "clip", "a dog and a man", *model, "--json", "--png", tmp_path / "f.png") == 0
    found = json.loads(capsys.readouterr().out)
    alone = inference.load_grounder(place / "model").ground(str(pictures[1]), "a dog and a man")
    assert [frame["frame"] for frame in found["frames"]] == [0, 1]
    assert found["frames"][1]["phrases"] == json.loads(json.dumps([phrase.to_dict() for phrase in alone]))
    with Image.open(pictures[0]) as one, Image.open(tmp_path / "f.png") as sheet:
        assert sheet.width > one.width
    assert run("ground", tmp_path / "clip", "a dog", *model) == 0
    assert "frame" in capsys.readouterr().out
    assert run("ground", tmp_path / "clip", "a dog", *model, "--heatmap", tmp_path / "h") == 2
