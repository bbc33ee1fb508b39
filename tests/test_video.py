"""Frames of clips: which ones, and that no file makes us fail in another way than with its name."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clips import numbers, write_clip, write_scenes, write_sound
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from groundling import images
from groundling.errors import DataError
from groundling.video import _cuts, clip_size, frame_count, frames, histogram, is_clip, middles, shots, upright


def test_frames_are_at_the_middles_of_equal_parts() -> None:
    """Ten seconds in five parts of two: 1, 3, 5, 7, 9."""
    assert middles(5, 0.0, 10.0) == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert middles(1, 4.0, 6.0) == [5.0]


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "mpeg4"), ("a.mp4", "libx264"), ("a.mkv", "mpeg4"), ("a.webm", "libvpx"), ("a.avi", "mpeg4"),
     ("a.ts", "mpeg2video"), ("a.flv", "flv")],
)  # fmt: skip
def test_every_container_gives_the_same_frames(tmp_path: Path, name: str, codec: str) -> None:
    """24 frames at 8 a second in four parts of 0.75 s; their middles, 0.375 s and so on, are frames 3, 9, 15, 21."""
    rate = 25 if codec == "mpeg2video" else 8
    clip = write_clip(tmp_path / name, codec=codec, rate=rate)
    assert numbers(list(frames(clip, 4))) == [3, 9, 15, 21]
    assert clip_size(clip) == (96, 64)


def test_a_segment_has_its_own_frames(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    assert numbers(list(frames(clip, 2, (1.0, 2.0)))) == [10, 14]  # at 1.25 s and 1.75 s
    with pytest.raises(DataError, match=r"clip.mp4: a segment begins at 9.0 s, the video ends at 2.9 s"):
        list(frames(clip, 2, (9.0, 12.0)))
    with pytest.raises(DataError, match="must begin before it ends"):
        list(frames(clip, 2, (2.0, 1.0)))


def test_a_short_clip_gives_frames_twice(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "short.mp4", frames=2)
    assert numbers(list(frames(clip, 4))) == [0, 0, 1, 1]
    assert numbers(list(frames(write_clip(tmp_path / "one.mp4", frames=1), 3))) == [0, 0, 0]


def test_a_folder_of_pictures_is_a_clip_of_all_of_them(tmp_path: Path) -> None:
    for i in range(3):
        Image.new("RGB", (8, 6), (i * 10,) * 3).save(tmp_path / f"{i:02d}.png")
    assert is_clip(tmp_path) and frame_count(tmp_path, 10) == 3 and clip_size(tmp_path) == (8, 6)
    assert numbers(list(frames(tmp_path, 10))) == [0, 1, 2]


def test_a_folder_without_pictures_is_none(tmp_path: Path) -> None:
    assert not is_clip(tmp_path) and not is_clip("")
    with pytest.raises(DataError, match="0 pictures"):
        frames(tmp_path)


def test_what_was_filmed_sideways_stands_upright() -> None:
    """A point at the top left, turned by 90 degrees against the clock, is at the bottom left."""
    image = Image.new("RGB", (4, 2))
    image.putpixel((0, 0), (255, 255, 255))
    turned = upright(image, 90)
    assert turned.size == (2, 4) and turned.getpixel((0, 3)) == (255, 255, 255)
    assert upright(image, 0) is image


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"no video at all" * 100, "damaged or unreadable video"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "damaged or unreadable video"),
        (b"ffconcat version 1.0\nfile /etc/hostname\n", "damaged or unreadable video"),
    ],
)
def test_what_is_no_video_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "bad.mp4"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"bad\.mp4: {told}"):
        list(frames(path))


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"song\.mp4: no picture in it"):
        list(frames(write_sound(tmp_path / "song.mp4")))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.mp4: no such video file"):
        list(frames(tmp_path / "gone.mp4"))


def test_a_file_that_was_cut_off_is_refused_and_not_captioned_by_its_beginning(tmp_path: Path) -> None:
    whole = write_clip(tmp_path / "whole.mp4", frames=25, size=(320, 240)).read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) * 3 // 5])
    with pytest.raises(DataError, match=r"cut\.mp4: (cut off|damaged)"):
        list(frames(tmp_path / "cut.mp4"))


def test_frames_that_are_too_large_are_refused_before_they_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = write_clip(tmp_path / "huge.mp4", frames=1)
    monkeypatch.setattr(images, "MAX_PIXELS", 96 * 64 - 1)
    with pytest.raises(DataError, match=r"huge\.mp4: frames of 96 x 64 pixels"):
        list(frames(clip))


@pytest.mark.parametrize("count", [0, -1, 101])
def test_the_number_of_frames_has_bounds(tmp_path: Path, count: int) -> None:
    with pytest.raises(DataError, match="ask for 1 to 100"):
        frames(tmp_path / "clip.mp4", count)


def test_without_pyav_the_pip_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "av":
            raise ImportError(name)
        return imported(name, *rest, **more)

    clip = write_clip(tmp_path / "clip.mp4", frames=1)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r"groundling\[video\]"):
        list(frames(clip))


@pytest.fixture(scope="module")
def sound_clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", frames=6, size=(32, 32)).read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_gives_frames_or_an_error_with_its_name(sound_clip: bytes, data: st.DataObject) -> None:
    import tempfile

    content = bytearray(sound_clip)
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.mp4"
        path.write_bytes(content)
        try:
            found = list(frames(path, 3))
        except DataError as error:
            assert "odd.mp4" in str(error)
        else:
            assert len(found) == 3


# ---------------------------------------------------------------- shots


def test_a_clip_of_three_scenes_has_three_shots(tmp_path: Path) -> None:
    found = shots(write_scenes(tmp_path / "a.mp4", [(200, 40, 40), (40, 160, 40), (40, 40, 200)]))
    assert [round(start, 1) for start, _ in found] == [0.0, 1.5, 3.0]
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert found[-1][1] == pytest.approx(4.5, abs=0.1)


def test_motion_and_slow_changes_of_light_are_no_cuts(tmp_path: Path) -> None:
    assert len(shots(write_scenes(tmp_path / "a.mp4", [(200, 40, 40)], 4.0))) == 1
    assert len(shots(write_clip(tmp_path / "b.mp4"))) == 1  # black becomes white, a little in each frame


def test_cuts_are_single_peaks_of_change_that_last() -> None:
    """Histograms of two colours. A cut: 1 0 -> 0 1. A flash goes back. Change all along has no peak."""
    one, other = np.array([1.0, 0.0], np.float32), np.array([0.0, 1.0], np.float32)
    assert _cuts(np.stack([one] * 5 + [other] * 5)) == [5]
    assert _cuts(np.stack([one] * 5 + [other] + [one] * 5)) == []
    assert _cuts(np.eye(8, dtype=np.float32)) == []  # every frame is of another colour
    assert _cuts(np.stack([one])) == []


def test_a_histogram_sums_to_one_and_tells_colours_apart() -> None:
    red = histogram(np.full((4, 4, 3), (250, 0, 0), np.uint8))
    blue = histogram(np.full((4, 4, 3), (0, 0, 250), np.uint8))
    assert red.sum() == pytest.approx(1) and np.abs(red - blue).sum() / 2 == pytest.approx(1)
    nearly = histogram(np.full((4, 4, 3), (250, 0, 16), np.uint8))  # the next bin of one of the two grids
    assert np.abs(red - nearly).sum() / 2 == pytest.approx(0.5)
