"""The whole path on drawn scenes, command by command, in a folder with a space in its name."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundling.cli import main
from groundling.data.evaluator_files import image_captions
from groundling.errors import DataError
from groundling.types import GroundedCaption

SIZES = ["--hidden", "16", "--embed", "16", "--attention", "16"]
TINY = [*SIZES, "--epochs", "1", "--batch", "8", "--min-count", "1", "--device", "cpu"]


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes, their regions, a model, and what it says of the test split."""
    place = tmp_path_factory.mktemp("a path") / "with a space"
    scenes, regions, model = place / "scenes", place / "regions", place / "model"
    assert run("scenes", scenes, "--images", 40) == 0
    assert run("regions", "extract", scenes, "--source", "scenes", "--out", regions, "--workers", 1) == 0
    assert run("train", "updown", "--data", scenes, "--regions", regions, "--out", model, *TINY) == 0
    out = place / "new" / "folder"
    outputs: list[object] = ["--out", out / "test.jsonl", "--coco", out / "coco.json", "--png", out / "png"]
    outputs += ["--submission", out / "submission.json", "--beam", 2, "--no-repeat", 2]
    outputs += ["--coco-boxes", out / "boxes.json", "--html", out / "page.html"]
    assert run("caption", scenes, "--split", "test", "--regions", regions, "--model", model, *outputs) == 0
    return place


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_output_has_every_image(place: Path) -> None:
    out = place / "new" / "folder"
    ids = [row["id"] for row in lines(out / "test.jsonl")]
    assert sorted(ids) == sorted((place / "scenes" / "test.txt").read_text().split())
    assert [str(row["image_id"]) for row in json.loads((out / "coco.json").read_text())] == ids
    assert sorted(file.stem for file in (out / "png").iterdir()) == sorted(ids)
    boxes = json.loads((out / "boxes.json").read_text())
    assert [str(image["id"]) for image in boxes["images"]] == ids
    assert len(boxes["annotations"]) == sum(len(row["links"]) for row in lines(out / "test.jsonl")) > 0
    assert (out / "page.html").read_text().count("data:image/webp") == len(ids)
    submitted = image_captions(json.loads((out / "submission.json").read_text()), "submission")
    assert [caption.id for caption in submitted] == ids


def test_captions_can_be_scored(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("score", place / "new" / "folder" / "test.jsonl", "--data", place / "scenes", "--split", "test") == 0
    assert "CIDEr" in capsys.readouterr().out


def test_captions_of_another_split_are_refused_in_a_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("score", place / "new" / "folder" / "test.jsonl", "--data", place / "scenes", "--split", "val") == 2
    assert "is not in the split 'val' of scenes: name the split (--split) that was captioned" in capsys.readouterr().err


def test_a_page_is_made_and_a_missing_picture_is_left_out(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = lines(place / "new" / "folder" / "test.jsonl")
    rows[0]["media"] = str(tmp_path / "moved.png")
    captions, page = tmp_path / "test.jsonl", tmp_path / "pages" / "page.html"
    captions.write_text("\n".join(map(json.dumps, rows)))
    assert run("report", captions, "--data", place / "scenes", "--split", "test", "-o", page) == 0  # the data knows
    assert page.read_text().count("data:image/webp") == len(rows)
    assert run("report", captions, "-o", page) == 1
    assert run("report", captions, "-o", page, "--skip-bad") == 0
    assert page.read_text().count("data:image/webp") == len(rows) - 1
    told = capsys.readouterr().err
    assert "moved.png" in told and f"1 of {len(rows)} images left out" in told


def test_pictures_of_one_name_keep_apart_and_leading_zeros_stay(place: Path, tmp_path: Path) -> None:
    picture = next((place / "scenes" / "images").iterdir())
    for name in ("a/007.png", "b/007.png", "a/008.png", "b/9.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(picture, tmp_path / name)
    coco = tmp_path / "coco.json"
    assert run("caption", tmp_path / "a", tmp_path / "b", "--model", place / "model", "--coco", coco) == 0
    ids = [row["image_id"] for row in json.loads(coco.read_text())]
    assert ids == [f"{tmp_path}/a/007.png", "008", f"{tmp_path}/b/007.png", 9]


def test_each_id_has_a_png_of_its_own(place: Path, tmp_path: Path) -> None:
    picture = next((place / "scenes" / "images").iterdir())
    for name in ("a/7.png", "b/7.png", "a_7.png.png", "a%2F7.png.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, tmp_path / "in" / name)
    assert run("caption", tmp_path / "in", "--model", place / "model", "--png", tmp_path / "out") == 0
    names = {"a%2F7.png.png", "b%2F7.png.png", "a_7.png.png", "a%252F7.png.png"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == names


def test_the_picture_of_one_image_is_the_file_that_is_named(place: Path, tmp_path: Path) -> None:
    picture = next((place / "scenes").rglob("*.png"))
    assert run("caption", picture, "--model", place / "model", "--png", tmp_path / "pointed.png") == 0
    with Image.open(tmp_path / "pointed.png") as drawn, Image.open(picture) as image:
        assert drawn.format == "PNG" and drawn.height > drawn.width * image.height / image.width  # the caption is below


def test_an_id_that_is_too_long_for_a_file_name_costs_only_its_own_png(place: Path, tmp_path: Path) -> None:
    picture = next((place / "scenes" / "images").iterdir())
    for folder in ("a", "b" * 130 + "/" + "c" * 130):
        (tmp_path / "in" / folder).mkdir(parents=True)
        shutil.copy(picture, tmp_path / "in" / folder / "7.png")
    assert run("caption", tmp_path / "in", "--model", place / "model", "--png", tmp_path / "out") == 1
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a%2F7.png.png"]


@pytest.mark.parametrize("more", [[], ["--png", "png"]])
def test_each_file_that_fails_is_counted_once(
    place: Path, tmp_path: Path, more: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cannot be captioned; of another, the picture is gone when it is to be shown, on the page and by itself."""

    def gone(*_: object) -> None:
        raise DataError("gone.png: no such image file")

    Image.new("RGB", (64, 64), "red").save(tmp_path / "gone.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    monkeypatch.setattr("groundling.report.picture.draw", gone)
    monkeypatch.setattr("groundling.commands.report._pictures", gone)
    words = [tmp_path / "gone.png", tmp_path / "bad.png", "--html", tmp_path / "page.html"]
    monkeypatch.chdir(tmp_path)
    assert run("caption", *words, "--model", place / "model", *more) == 1
    assert "2 of 2 files could not be read" in capsys.readouterr().err


def test_a_person_in_a_terminal_reads_a_caption_and_a_pipe_gets_json(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["caption", next((place / "scenes" / "images").iterdir()), "--model", place / "model", "--min-length", 9]
    capsys.readouterr()
    assert run(*command) == 0
    row = json.loads(piped := capsys.readouterr().out)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(*command) == 0
    told = capsys.readouterr().out
    assert row["id"] in told and all(link["word"] in told for link in row["links"]) and "{" not in told
    assert run(*command, "--json", "--html", place / "one.html") == 0
    assert capsys.readouterr().out == piped  # and nothing about the page


def test_without_weights_in_the_package_a_model_is_asked_for(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = next((place / "scenes" / "images").iterdir())
    monkeypatch.setattr("groundling.inference.loading.SHIPPED", tmp_path)
    assert run("caption", picture) == run("ground", picture, "a dog") == 2
    assert capsys.readouterr().err.count("name a model that you trained (--model RUN)") == 2


def test_a_picture_named_twice_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = next((place / "scenes" / "images").iterdir())
    assert run("caption", picture, picture, "--model", place / "model") == 2
    assert "is named twice" in capsys.readouterr().err


def test_a_picture_that_cannot_be_read_is_named_and_the_others_are_captioned(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (64, 64), "red").save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    out = tmp_path / "out.jsonl"
    command = ["caption", tmp_path, "--model", place / "model", "--out", out]
    assert run(*command) == 1
    assert [row["id"] for row in lines(out)] == ["good"]
    assert "bad.png" in capsys.readouterr().err
    assert run(*command, "--skip-bad") == 0


def test_words_are_drawn_by_a_seed(place: Path, tmp_path: Path) -> None:
    pictures = sorted((place / "scenes" / "images").iterdir())[:3]

    def captions(*more: object) -> list[str]:
        out = tmp_path / "drawn.jsonl"
        assert run("caption", *pictures, "--model", place / "model", "--out", out, *more) == 0
        return [row["caption"] for row in lines(out)]

    assert captions("--sample", "--seed", 1) == captions("--sample", "--seed", 1) != captions("--sample", "--seed", 2)
    assert captions("--sample", "--top-k", 1) == captions("--beam", 1, "--no-repeat", 0, "--repeat-nouns")
    assert captions("--evidence-weight", 0) == captions()  # there is no grounder whose evidence could count


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--seed", "1"], "--seed needs --sample"),
        (["--sample", "--beam", "2"], "--beam does not go with --sample"),
        (["--beam", "0"], "beam must be 1 or more"),
        (["--evidence-weight", "-1"], "evidence_weight must be 0 or more"),
        (["--evidence-weight", "1"], "an evidence weight needs a calibrated grounder"),
        (["--device", "nonsense"], "cannot use the device nonsense"),
        (["--coco", "{file}/below/a/file.json"], "cannot be written"),
        (["--png", "{file}"], "cannot be made a folder"),
        (["--out", "{folder}"], "is a folder"),
    ],
)
def test_what_cannot_be_done_is_told_before_the_work(
    place: Path, tmp_path: Path, more: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = [word.format(file=tmp_path / "file", folder=tmp_path) for word in more]
    assert run("caption", place / "scenes" / "images", "--model", place / "model", *words) == 2
    printed = capsys.readouterr()
    assert told in printed.err and not printed.out


def test_a_bad_item_is_left_out_all_along_the_path(place: Path, tmp_path: Path) -> None:
    scenes, regions = tmp_path / "scenes", tmp_path / "regions"
    shutil.copytree(place / "scenes", scenes, ignore=shutil.ignore_patterns(".groundling"))
    id = (scenes / "test.txt").read_text().split()[0]
    (scenes / "Annotations" / f"{id}.xml").write_text("<broken")
    extract = ["regions", "extract", scenes, "--source", "scenes", "--out", regions, "--workers", 1]
    assert run(*extract) == 2
    assert run(*extract, "--skip-bad") == 0
    out = tmp_path / "test.jsonl"
    caption = ["caption", scenes, "--split", "test", "--regions", regions, "--model", place / "model", "--out", out]
    assert run(*caption) == 2
    assert run(*caption, "--skip-bad") == 0
    assert id not in [row["id"] for row in lines(out)]
    report = ["report", out, "--data", scenes, "--split", "test", "-o", tmp_path / "page.html"]
    assert run(*report) == 2
    assert run(*report, "--skip-bad") == 0


def test_an_image_without_a_picture_needs_regions_and_has_no_png(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenes = tmp_path / "scenes"
    shutil.copytree(place / "scenes", scenes, ignore=shutil.ignore_patterns("images"))
    command = ["caption", scenes, "--split", "test", "--model", place / "model", "--out", tmp_path / "out.jsonl"]
    assert run(*command) == 2
    assert "have no picture file, such as" in (told := capsys.readouterr().err) and "--regions STORE" in told
    assert run(*command, "--regions", place / "regions", "--png", tmp_path / "png") == 2
    assert "leave out --png" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
    assert run(*command, "--regions", place / "regions") == 0


def test_images_that_a_store_lacks_are_told_before_the_work(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (64, 64), "red").save(tmp_path / "stranger.png")
    assert run("caption", tmp_path, "--model", place / "model", "--regions", place / "regions") == 2
    assert "has no regions of 1 of 1 images, such as 'stranger'" in capsys.readouterr().err


def test_a_model_of_imported_regions_asks_for_a_store(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(place / "model", model)
    about = json.loads((model / "model.json").read_text())
    about["fingerprint"]["version"] = "imported"
    (model / "model.json").write_text(json.dumps(about))
    (model / "manifest.json").unlink()
    assert run("caption", place / "scenes" / "images", "--model", model) == 2
    assert "trained on imported regions (scenes): give --regions STORE" in capsys.readouterr().err


def test_an_error_of_the_system_is_one_line_with_the_file(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "page.html"))

    monkeypatch.setattr("groundling.report.write", full)
    assert run("report", place / "new" / "folder" / "test.jsonl", "-o", tmp_path / "page.html") == 2
    assert capsys.readouterr().err == f"groundling: {tmp_path / 'page.html'}: No space left on device\n"


def test_captions_that_were_stopped_go_on_as_if_nothing_had_been(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 of 40 captions are made when it stops: the 16 of whole groups stay, and 24 are made anew."""
    pictures = sorted((place / "scenes" / "images").iterdir())
    command = ["caption", *pictures, "--model", place / "model", "--sample", "--seed", 3]
    coco = [tmp_path / name for name in ("coco.json", "again.json")]
    assert run(*command, "--out", tmp_path / "whole.jsonl", "--coco-boxes", coco[0]) == 0
    out, written, made = tmp_path / "out.jsonl", GroundedCaption.to_dict, []
    out.write_text("earlier\n")

    def stops(caption: GroundedCaption) -> dict[str, Any]:
        made.append(caption.id)
        if len(made) == 21:
            raise KeyboardInterrupt
        return written(caption)

    monkeypatch.setattr(GroundedCaption, "to_dict", stops)
    assert run(*command, "--out", out) == 130
    assert out.read_text() == "earlier\n"
    capsys.readouterr()
    assert run(*command, "--out", out, "--coco-boxes", coco[1]) == 0
    assert "out.jsonl: going on after 16 of 40 captions" in capsys.readouterr().err
    assert len(made) == 21 + 24
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert coco[0].read_bytes() == coco[1].read_bytes()
    assert not (tmp_path / "out.jsonl.part").exists()


def test_a_device_is_written_to_line_by_line(place: Path, tmp_path: Path) -> None:
    picture = next((place / "scenes" / "images").iterdir())
    assert run("caption", picture, "--model", place / "model", "--out", "/dev/null") == 0
    assert Path("/dev/null").is_char_device()
