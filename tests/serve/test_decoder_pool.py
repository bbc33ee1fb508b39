"""Decoding in a process that may be killed."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from clips import numbers, write_clip
from PIL import Image, ImageChops

from groundling.images import open_image
from groundling.serve.decoder_pool import DecoderPool
from groundling.serve.problems import Problem

PIXELS = 1_000_000


@pytest.fixture(scope="module")
def decoders() -> Iterator[DecoderPool]:
    pool = DecoderPool(1, PIXELS, 20.0)
    yield pool
    pool.stop()


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header promises many pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_pixels_are_those_of_the_library(decoders: DecoderPool, tmp_path: Path) -> None:
    content = encoded(Image.effect_noise((40, 30), 80).convert("RGBA"))
    (tmp_path / "a.png").write_bytes(content)
    [picture] = decoders.decode(content)
    assert ImageChops.difference(picture, open_image(tmp_path / "a.png")).getbbox() is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GIF89a", "damaged or unreadable|known format"),
        (b"no image", "not an image in a known format"),
        (bomb(2000, 2000), "2000 x 2000 pixels, at most 1,000,000 are read; make it smaller"),
        (bomb(60_000, 60_000), "too large|pixels"),
        (encoded(Image.new("RGB", (200, 200), "red"), "JPEG")[:600], "damaged"),
    ],
)
def test_what_cannot_be_decoded_is_reported_without_a_path(decoders: DecoderPool, content: bytes, message: str) -> None:
    with pytest.raises(Problem, match=message) as caught:
        decoders.decode(content)
    assert caught.value.status == 422 and "/proc" not in caught.value.detail


def test_a_process_that_takes_too_long_is_killed_and_the_next_image_finds_another(decoders: DecoderPool) -> None:
    slow = DecoderPool(1, 10**9, 20.0)
    try:
        slow.decode(encoded(Image.new("RGB", (2, 2))))
        first = slow.processes[0].process
        slow.seconds = 0.02
        with pytest.raises(Problem, match="decoding took more than 0.02 seconds"):
            slow.decode(encoded(Image.new("1", (8000, 8000))))
        assert first is not None and first.poll() is not None
        slow.seconds = 20.0
        assert slow.decode(encoded(Image.new("RGB", (2, 2))))[0].size == (2, 2)
    finally:
        slow.stop()


def test_a_process_that_dies_does_not_take_the_server_with_it(decoders: DecoderPool) -> None:
    decoders.decode(encoded(Image.new("RGB", (2, 2))))
    process = decoders.processes[0].process
    assert process
    process.kill()
    process.wait()
    with pytest.raises(Problem):
        decoders.decode(encoded(Image.new("RGB", (2, 2))))
    assert decoders.decode(encoded(Image.new("RGB", (3, 2))))[0].size == (3, 2)


def test_frames_of_a_clip_come_from_memory(decoders: DecoderPool, tmp_path: Path) -> None:
    """Of 24 frames, the middles of 4 equal parts."""
    content = write_clip(tmp_path / "clip.mp4").read_bytes()
    assert numbers(decoders.decode(content, frames=4)) == [3, 9, 15, 21]
    decoders.pixels = 96 * 64
    try:
        with pytest.raises(Problem, match="frames of 96 x 64 pixels are too much at once; choose fewer frames"):
            decoders.decode(content, frames=3)
    finally:
        decoders.pixels = PIXELS


def test_the_decoder_imports_no_models() -> None:
    code = "import sys, groundling.serve.decoder_process as d; d._import(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
