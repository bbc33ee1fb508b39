"""The process that decodes images and clips: bytes of unknown origin in, RGB pixels out.

It is started as `python -m groundling.serve.decoder_process`, has little memory and may be killed at any moment. On
standard input comes the length of a JSON header (four bytes, big-endian), the header {"bytes", "pixels", "frames"},
then the content; `frames` is 0 for an image. On standard output goes a header of the same form, {"sizes": [[width,
height], …]} or {"error": …}, then the pixels of all pictures.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from groundling.errors import GroundlingError

if TYPE_CHECKING:
    from PIL import Image

MEMORY = 3 << 30  # bytes of address space
LARGEST_HEADER = 1 << 16
FRAMES = 2.5  # times the pixels of an image that all frames of a clip may have together


def main() -> None:
    _confine()
    source = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # what a library prints must not be taken for pixels
        _import()
        write(output, {"ready": True})
        while (header := read(source)) is not None:
            content = source.read(header["bytes"])
            _respond(output, content, header["pixels"], header["frames"])


def read(source: IO[bytes]) -> dict[str, Any] | None:
    """The next header; None at the end."""
    prefix = source.read(4)
    if len(prefix) < 4:
        return None
    (length,) = struct.unpack(">I", prefix)
    content = source.read(length) if length <= LARGEST_HEADER else b""
    header: dict[str, Any] | None = json.loads(content) if len(content) == length else None
    return header


def write(target: IO[bytes], header: dict[str, Any], content: bytes = b"") -> None:
    plain = json.dumps(header).encode()
    target.write(struct.pack(">I", len(plain)) + plain)
    target.write(content)
    target.flush()


def _respond(output: IO[bytes], content: bytes, pixels: int, frames: int) -> None:
    try:
        pictures = decode(content, pixels, frames)
    except (GroundlingError, MemoryError) as error:
        write(output, {"error": str(error) or "it takes too much memory; make it smaller"})
        return
    write(output, {"sizes": [picture.size for picture in pictures]}, b"".join(p.tobytes() for p in pictures))


def decode(content: bytes, pixels: int, frames: int = 0) -> list[Image.Image]:
    """The image, or so many frames of the clip; GroundlingError with the cure where it cannot be had."""
    from groundling import images, video

    with as_file(content) as path:
        try:
            size = video.clip_size(path) if frames else images.image_size(path)
            _check(*size, pixels, frames)
            return list(video.frames(path, frames)) if frames else [images.open_image(path)]
        except GroundlingError as error:
            raise GroundlingError(str(error).removeprefix(f"{path}: ")) from error


def _check(width: int, height: int, pixels: int, frames: int) -> None:
    if width * height > pixels:
        raise GroundlingError(f"{width} x {height} pixels, at most {pixels:,} are read; make it smaller")
    if width * height * frames > FRAMES * pixels:
        raise GroundlingError(f"{frames} frames of {width} x {height} pixels are too much at once; choose fewer frames")


@contextlib.contextmanager
def as_file(content: bytes) -> Iterator[Path]:
    """The content under a path that decoders can open; in memory alone where the system allows it."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("content"), "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield Path(file.name)


def _import() -> None:
    """Import now what the first image would wait for."""
    from groundling import images  # noqa: F401


def _confine() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
