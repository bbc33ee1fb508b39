"""A few decoding processes, each killed when it takes too long and started again when it is needed next."""

from __future__ import annotations

import contextlib
import os
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groundling.serve.decoder_process import read, write
from groundling.serve.problems import unfit

if TYPE_CHECKING:
    from PIL import Image

START = 30.0  # seconds for a process to start on a busy machine


class Dead(Exception):
    """The process ended, or was killed, before it responded."""


@dataclass
class Decoder:
    """One process. Used by one thread at a time."""

    process: subprocess.Popen[bytes] | None = None

    def decode(self, content: bytes, pixels: int, frames: int, seconds: float) -> list[Image.Image]:
        """RGB pictures; Problem where the content cannot be decoded, or not in time."""
        try:
            process = self.process or self.start()
            with self._killed_after(seconds):
                return _exchange(process, content, pixels, frames)
        except (Dead, OSError, ValueError, struct.error) as error:
            self.stop()
            raise unfit(
                f"decoding took more than {seconds:g} seconds or too much memory; make it smaller, or convert it"
            ) from error

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            for stream in (self.process.stdin, self.process.stdout):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
            self.process.wait()
        self.process = None

    def start(self) -> subprocess.Popen[bytes]:
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "groundling.serve.decoder_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | one_thread,
            start_new_session=True,  # Ctrl-C is for the server, which ends its decoders itself
        )
        with self._killed_after(START):
            assert self.process.stdout
            if read(self.process.stdout) is None:
                raise Dead
        return self.process

    @contextlib.contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        assert self.process
        timer = threading.Timer(seconds, self.process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _exchange(process: subprocess.Popen[bytes], content: bytes, pixels: int, frames: int) -> list[Image.Image]:
    from PIL import Image

    assert process.stdin and process.stdout
    write(process.stdin, {"bytes": len(content), "pixels": pixels, "frames": frames}, content)
    header = read(process.stdout)
    if header is None:
        raise Dead
    if "error" in header:
        raise unfit(f"the {'clip' if frames else 'image'}: {header['error']}")
    pictures = []
    for width, height in header["sizes"]:
        pixels_of_one = process.stdout.read(width * height * 3)
        if len(pixels_of_one) < width * height * 3:
            raise Dead
        pictures.append(Image.frombytes("RGB", (width, height), pixels_of_one))
    return pictures


@dataclass
class DecoderPool:
    """The processes that are free. `decode` waits for one and blocks: call it from a thread."""

    count: int
    pixels: int
    seconds: float
    free: queue.SimpleQueue[Decoder] = field(default_factory=queue.SimpleQueue)
    processes: list[Decoder] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in range(self.count):
            self.processes.append(Decoder())
            self.free.put(self.processes[-1])

    def decode(self, content: bytes, frames: int = 0) -> list[Image.Image]:
        decoder = self.free.get()
        try:
            return decoder.decode(content, self.pixels, frames, self.seconds * max(1, frames))
        finally:
            self.free.put(decoder)

    def warm(self) -> None:
        """Start a process before the first request needs it."""
        decoder = self.free.get()
        with contextlib.suppress(Dead, OSError):
            decoder.process or decoder.start()
        self.free.put(decoder)

    def stop(self) -> None:
        for decoder in self.processes:
            decoder.stop()
