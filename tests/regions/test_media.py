"""Regions of clips: those of all frames as one, the best of every frame first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from clips import write_clip
from PIL import Image

from groundling.regions.extract import extract
from groundling.regions.jobs import Job, images_below
from groundling.regions.media import of_frames, of_media
from groundling.regions.sources import source
from groundling.regions.store import Store
from groundling.tensors import Regions


def found(count: int, first: float) -> Regions:
    """Regions whose features and boxes count up from `first`."""
    value = torch.arange(count) + float(first)
    one = Regions.of(value[:, None], value[:, None] + torch.tensor([0.0, 0.0, 5.0, 5.0]), (64, 48))
    return replace(one, whole=torch.tensor([[float(first)]]), grid=torch.full((1, 2, 1), float(first)))


def test_the_first_of_every_frame_comes_first() -> None:
    """Frames of 3, 1 and 2 regions."""
    clip = of_frames([found(3, 10), found(1, 20), found(2, 30)])
    assert clip.feats[0, :, 0].tolist() == [10, 20, 30, 11, 31, 12]
    assert clip.frame.tolist() == [[0, 1, 2, 0, 2, 0]]
    assert clip.boxes[0, :, 0].tolist() == [10, 20, 30, 11, 31, 12] and clip.valid.all()
    assert clip.first(3).frame.tolist() == [[0, 1, 2]]
    assert clip.size.tolist() == [[64, 48]]
    assert clip.whole is not None and clip.whole.tolist() == [[20.0]]
    assert clip.grid is not None and clip.grid.tolist() == [[[20.0], [20.0]]]


def test_one_frame_is_an_image() -> None:
    image, clip = found(3, 10), of_frames([found(3, 10)])
    torch.testing.assert_close((clip.feats, clip.boxes, clip.frame), (image.feats, image.boxes, image.frame))


def test_a_frame_of_a_clip_has_the_regions_of_the_same_picture(tmp_path: Path) -> None:
    make = source("scenes")
    for i, colour in enumerate(("teal", "maroon")):
        picture = Image.new("RGB", (64, 48), colour)
        picture.paste((250, 250, 0), (10 + 10 * i, 10, 30 + 10 * i, 30))
        picture.save(tmp_path / f"{i}.png")
    clip = of_media(make, tmp_path)
    for i in range(2):
        alone, mine = of_media(make, tmp_path / f"{i}.png"), clip.frame[0] == i
        torch.testing.assert_close(clip.feats[0, mine], alone.feats[0])
        torch.testing.assert_close(clip.boxes[0, mine], alone.boxes[0])


def test_a_folder_of_pictures_and_videos_becomes_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_clip(folder / "clip.mp4", frames=6)
    Image.new("RGB", (64, 48), "teal").save(folder / "still.png")
    (folder / "bad.mkv").write_bytes(b"no video")
    jobs = images_below(folder, frames=3)
    assert [job.id for job in jobs] == ["bad", "clip", "still"]
    done = list(extract(jobs, "scenes", {}, tmp_path / "store"))
    assert [step.added for step in done] == [False, True, True] and "bad.mkv" in str(done[0].problem)
    store = Store.open(tmp_path / "store")
    assert sorted(set(store["clip"].frame[0].tolist())) == [0, 1, 2]
    assert set(store["still"].frame[0].tolist()) == {0}


def test_a_segment_is_a_job_of_its_own(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    jobs = [Job("early", clip, 2, (0.0, 1.0)), Job("late", clip, 2, (2.0, 3.0)), Job("after", clip, 2, (9.0, 10.0))]
    done = list(extract(jobs, "scenes", {}, tmp_path / "store"))
    assert [step.added for step in done] == [True, True, False] and "a segment begins at 9.0 s" in str(done[2].problem)
    store = Store.open(tmp_path / "store")
    assert not torch.equal(store["early"].feats, store["late"].feats)
