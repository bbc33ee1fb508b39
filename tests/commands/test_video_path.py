"""The whole path on scenes that move, command by command, and real video files at the end of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from clips import write_clip, write_scenes, write_sound
from rich.console import Console

import groundling
from groundling.cli import main
from groundling.data.dataset import load
from groundling.images import image_size
from groundling.regions.store import Store
from groundling.report.terminal import readable
from groundling.types import GroundedCaption

TINY = ["--hidden", "16", "--embed", "16", "--attention", "16", "--epochs", "1", "--batch", "8", "--min-count", "1"]


def run(*words: object) -> int:
    return main([str(word) for word in words])


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips of three frames, their regions, a model, and what it says of the validation split."""
    place = tmp_path_factory.mktemp("moving") / "a path"
    clips, regions, model = place / "clips", place / "regions", place / "model"
    drawing = ["--images", 14, "--frames", 3, "--size", 96, "--splits", 0.7, 0.3, 0, "--workers", 1]
    assert run("scenes", clips, "--video", *drawing) == 0
    assert run("regions", "extract", clips, "--source", "scenes", "--out", regions, "--workers", 1) == 0
    shown = ["--regions-per-image", 60, "--device", "cpu"]
    assert run("train", "updown", "--data", clips, "--regions", regions, "--out", model, *shown, *TINY) == 0
    written: list[object] = [
        "--attention",
        "--out",
        place / "val.jsonl",
        "--submission",
        place / "val.json",
        "--png",
        place / "png",
    ]
    assert run("caption", clips, "--split", "val", "--regions", regions, "--model", model, *written) == 0
    return place


def test_regions_have_the_numbers_of_their_frames(place: Path) -> None:
    store = Store.open(place / "regions")
    for example in load(place / "clips", annotated=False):
        assert set(store[example.id].frame[0].tolist()) == {0, 1, 2}


def test_a_caption_of_a_clip_says_in_which_frame_its_boxes_are(place: Path) -> None:
    rows = lines(place / "val.jsonl")
    assert [row["id"] for row in rows] == [e.id for e in load(place / "clips", "val", annotated=False)]
    assert all(row["frames"] == 3 and row["segment"] == [0.0, 3.0] for row in rows)
    assert [json.loads(json.dumps(GroundedCaption.from_dict(row).to_dict())) for row in rows] == rows
    assert {frame for row in rows for word in row["attention"] for frame in word["frames"]} <= {0, 1, 2}
    sizes = {image_size(file)[0] for file in (place / "png").iterdir()}
    assert sizes == {3 * 320 + 2 * 6}  # three frames side by side


def truth(place: Path, split: str) -> list[GroundedCaption]:
    """Captions that say and point at what the data says: a perfect system."""
    from groundling.types import Link

    captions = []
    for e in load(place / "clips", split, annotated=False):
        caption = e.captions[0]
        links = tuple(
            Link(p.head, caption.spans[p.head], box, 1.0, frame)
            for p in e.gold
            for box, frame in dict(zip(p.frames, zip(p.boxes, p.frames, strict=True), strict=True)).values()
        )
        captions.append(
            GroundedCaption(e.id, caption.text, caption.tokens, caption.spans, links, media=e.media, frames=3)
        )
    return captions


def test_the_official_files_go_through_the_official_evaluation(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from groundling.data.evaluator_files import video_submission

    assert run("official", place / "clips", "--out", tmp_path / "official") == 0
    reference = json.loads((tmp_path / "official" / "reference.json").read_text())
    assert set(reference["annotations"]) == {f"v_{i:06d}" for i in range(14)}
    files = ["--reference", tmp_path / "official" / "reference.json", "--split", "validation"]
    files += ["--split-file", tmp_path / "official" / "splits.json", "--json"]
    capsys.readouterr()
    assert run("score", "activitynet-entities", "--submission", place / "val.json", *files) == 0
    ours = json.loads(capsys.readouterr().out)
    assert {"all", "loc"} <= set(ours)
    perfect = truth(place, "val")
    class_of = {e.captions[0].tokens[p.head]: p.label for e in load(place / "clips", annotated=False) for p in e.gold}
    (tmp_path / "best.json").write_text(json.dumps(video_submission(perfect, class_of)))
    assert run("score", "activitynet-entities", "--submission", tmp_path / "best.json", *files) == 0
    best = json.loads(capsys.readouterr().out)
    assert best["all"]["f1"] == best["loc"]["f1"] == 1.0


def test_our_own_score_and_the_official_one_are_the_same_number(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On captions that are half right: each second link is moved away."""
    from dataclasses import replace

    from groundling.data.evaluator_files import video_submission

    captions = [
        replace(one, links=tuple(replace(x, box=(0.0, 0.0, 3.0, 3.0)) if x.token % 2 else x for x in one.links))
        for one in truth(place, "val")
    ]
    (tmp_path / "half.jsonl").write_text("\n".join(json.dumps(one.to_dict()) for one in captions))
    class_of = {e.captions[0].tokens[p.head]: p.label for e in load(place / "clips", annotated=False) for p in e.gold}
    (tmp_path / "half.json").write_text(json.dumps(video_submission(captions, class_of)))
    assert run("official", place / "clips", "--out", tmp_path) == 0
    capsys.readouterr()
    files = ["--reference", tmp_path / "reference.json", "--split-file", tmp_path / "splits.json", "--json"]
    submission = ["--submission", tmp_path / "half.json", "--split", "validation"]
    assert run("score", "activitynet-entities", *submission, *files) == 0
    official = json.loads(capsys.readouterr().out)
    assert run("score", tmp_path / "half.jsonl", "--data", place / "clips", "--split", "val", "--json") == 0
    scores = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)["scores"]}
    assert 0 < official["all"]["f1"] < 1
    assert scores["f1_all"] == pytest.approx(official["all"]["f1"])
    assert scores["f1_loc"] == pytest.approx(official["loc"]["f1"])


def test_the_page_of_clips_has_every_frame(place: Path, tmp_path: Path) -> None:
    data = ["--data", place / "clips", "--split", "val"]
    assert run("report", place / "val.jsonl", *data, "-o", tmp_path / "page.html") == 0
    clips = len(lines(place / "val.jsonl"))
    assert (tmp_path / "page.html").read_text().count("data:image/webp") == 3 * clips


def test_a_study_of_clips_has_every_frame(place: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(one.to_dict()) for one in truth(place, "val")))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    assert run("study", *files, "--data", place / "clips", "--out", tmp_path / "study.html", "--n", 2) == 0
    assert (tmp_path / "study.html").read_text().count("data:image/webp") == 2 * 3


# ---------------------------------------------------------------- video files


def test_a_video_file_is_captioned_and_drawn(place: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    out = tmp_path / "out.jsonl"
    words = ["--model", place / "model", "--frames", 4, "--out", out, "--png", tmp_path / "png"]
    assert run("caption", clip, *words) == 0
    [row] = lines(out)
    assert row["id"] == "clip" and row["frames"] == 4 and row["size"] == [96, 64] and row["media"] == str(clip)
    assert (tmp_path / "png" / "clip.png").exists()
    assert run("report", out, "-o", tmp_path / "page.html") == 0
    assert (tmp_path / "page.html").read_text().count("data:image/webp") == 4


def test_python_captions_a_segment_of_a_video(place: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mkv")
    model = groundling.load(place / "model")
    captions = model.caption(clip, frames=3, segment=(1.0, 2.0))
    assert (captions.id, captions.frames, captions.segment) == ("clip", 3, (1.0, 2.0))
    assert groundling.draw(clip, captions).width == 3 * 320 + 2 * 6
    assert {frame for word in captions.attention for frame in word.frames} <= {0, 1, 2}


def test_a_folder_of_videos_is_captioned_from_its_store_as_from_its_files(place: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "out.jsonl"
    folder.mkdir()
    write_clip(folder / "one.mp4", frames=6)
    write_clip(folder / "two.webm", frames=9, codec="libvpx")
    store = tmp_path / "store"
    extract = ["regions", "extract", folder, "--source", "scenes", "--out", store, "--frames", 2, "--workers", 1]
    assert run(*extract) == 0
    captions = ["caption", folder, "--model", place / "model", "--frames", 2, "--out", out]
    assert run(*captions, "--regions", store) == 0
    of_store = lines(out)
    assert run(*captions) == 0
    assert [row["id"] for row in of_store] == ["one", "two"]
    assert [row["caption"] for row in lines(out)] == [row["caption"] for row in of_store]


def test_bad_videos_are_named_and_the_others_are_captioned(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_clip(tmp_path / "good.mp4", frames=3)
    write_sound(tmp_path / "song.mp4")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "noise.avi").write_bytes(b"noise" * 99)
    out = tmp_path / "out.jsonl"
    assert run("caption", tmp_path, "--model", place / "model", "--out", out, "--frames", 2) == 1
    assert [row["id"] for row in lines(out)] == ["good"]
    told = capsys.readouterr().err
    assert all(name in told for name in ("song.mp4", "empty.mp4", "noise.avi", "3 of 4 files could not be read"))


def test_a_clip_of_several_scenes_gets_a_caption_for_each_with_its_times(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = write_scenes(tmp_path / "clip.mp4", [(200, 40, 40), (40, 160, 40)])
    captions = ["caption", clip, "--model", place / "model", "--frames", 2]
    out = tmp_path / "out.jsonl"
    assert run(*captions, "--out", out, "--html", tmp_path / "page.html", "--png", tmp_path / "png") == 0
    rows = lines(out)
    assert [row["id"] for row in rows] == ["clip@0.0", "clip@1.5"]
    assert [[round(x, 1) for x in row["segment"]] for row in rows] == [[0.0, 1.5], [1.5, 3.0]]
    assert sorted(file.name for file in (tmp_path / "png").iterdir()) == ["clip@0.0.png", "clip@1.5.png"]
    console = Console(width=100)
    with console.capture() as shown:
        console.print(readable(GroundedCaption.from_dict(rows[1])))
    assert "clip.mp4, 1.5 to 3.0 s" in " ".join(shown.get().split())
    capsys.readouterr()
    assert run(*captions, "--plain") == 0
    assert [line.split("#")[1].split("\t")[0] for line in capsys.readouterr().out.splitlines()] == [
        "t=0.0,1.5",
        "t=1.5,3.0",
    ]
    assert run(*captions, "--whole-clip", "--out", out) == 0
    assert [row["id"] for row in lines(out)] == ["clip"]


def test_frames_are_not_for_data_sets(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("caption", place / "clips", "--model", place / "model", "--frames", 2) == 2
    extract = ["regions", "extract", place / "clips", "--source", "scenes", "--out", tmp_path / "s", "--frames", 2]
    assert run(*extract) == 2
    told = capsys.readouterr().err
    assert "--frames goes with video files" in told and "--frames goes with a folder of videos" in told


def test_a_data_set_without_boxes_has_no_official_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "captions.csv").write_text("image,caption\na.png,A dog\nb.png,A cat\n")
    assert run("official", tmp_path, "--out", tmp_path / "out") == 2
    assert "has no boxes" in capsys.readouterr().err
