"""Videos of one's own: captions in a table beside mp4 files are a data set."""

from __future__ import annotations

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
