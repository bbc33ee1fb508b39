"""Videos of one's own: captions in a table beside mp4 files are a data set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clips import write_clip

from groundling.cli import main
from groundling.data.dataset import load
from groundling.regions.store import Store


def test_captions_beside_videos_are_a_data_set_whose_regions_have_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "own"
    (data / "videos").mkdir(parents=True)
    for name, frames in (("a.mp4", 12), ("b.mp4", 16)):
        write_clip(data / "videos" / name, frames=frames)
    (data / "captions.csv").write_text("video,caption,split\na.mp4,A dark room.,train\nb.mp4,A gray room.,val\n")
    found = load(data, annotated=False)
    assert [(e.id, Path(e.media).name, e.size, e.split) for e in found] == [
        ("a", "a.mp4", (96, 64), "train"),
        ("b", "b.mp4", (96, 64), "val"),
    ]
    assert main(["doctor", str(data)]) == 0
    extract = ["regions", "extract", str(data), "--source", "scenes", "--out", str(tmp_path / "store")]
    assert main([*extract, "--workers", "1"]) == 0
    regions = Store.open(tmp_path / "store")["a"]
    assert sorted(set(regions.frame[0].tolist())) == list(range(10))


def test_a_captioner_is_trained_on_own_videos_and_its_captions_are_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From captions.csv beside mp4 files to a score, each step by its command."""
    data, store, run, out = (str(tmp_path / name) for name in ("own", "store", "run", "captions.jsonl"))
    (tmp_path / "own").mkdir()
    for name in "abc":
        write_clip(tmp_path / "own" / f"{name}.mp4", frames=12)
    lines = ["a.mp4,A dark room.,train", "b.mp4,A gray room.,train", "c.mp4,A gray room.,val"]
    (tmp_path / "own" / "captions.csv").write_text("\n".join(["video,caption,split", *lines]) + "\n")
    assert main(["regions", "extract", data, "--source", "scenes", "--out", store, "--workers", "1"]) == 0
    sizes = ["--hidden", "8", "--embed", "8", "--attention", "8", "--min-count", "1", "--epochs", "1", "--threads", "1"]
    assert main(["train", "updown", "--data", data, "--regions", store, "--out", run, *sizes]) == 0
    assert main(["caption", data, "--split", "val", "--model", run, "--regions", store, "--out", out]) == 0
    (said,) = map(json.loads, Path(out).read_text().splitlines())
    assert said["id"] == "c"
    capsys.readouterr()
    assert main(["score", out, "--data", data, "--split", "val", "--metrics", "bleu,cider-d"]) == 0
    assert "cider-d" in capsys.readouterr().out.lower()
