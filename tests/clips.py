"""Little video files, made by the tests: frame i is of one colour, brighter by ten than the one before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
from PIL import Image

STEP = 10


def write_clip(
    path: Path, frames: int = 24, size: tuple[int, int] = (96, 64), rate: int = 8, codec: str = "mpeg4"
) -> Path:
    wide, high = size
    with av.open(str(path), "w", options={"movflags": "faststart"} if path.suffix == ".mp4" else {}) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = wide, high, "yuv420p"
        for i in range(frames):
            pixels = np.full((high, wide, 3), i * STEP, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def write_scenes(path: Path, colours: Sequence[tuple[int, int, int]], seconds: float = 1.5, rate: int = 12) -> Path:
    """A square wanders over one ground after the other."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(round(len(colours) * seconds * rate)):
            pixels = np.full((64, 96, 3), colours[int(i / rate / seconds)], np.uint8)
            pixels[20:40, i % 70 : i % 70 + 20] = (250, 250, 250)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def write_sound(path: Path) -> Path:
    """A file of the same kind without any picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def numbers(frames: list[Image.Image]) -> list[int]:
    """Which frames of `write_clip` these are."""
    return [round(float(np.asarray(frame).mean()) / STEP) for frame in frames]
