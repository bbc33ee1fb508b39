"""Frames of a clip of unknown origin: a video file, or a folder of pictures that are its frames.

A file is hostile until decoded: only CONTAINERS are opened, no address but the file itself is followed, no frame of
more than MAX_PIXELS is decoded, and frames are made one at a time. So memory is bounded, whatever the bytes say.

Frames are chosen as in ActivityNet-Entities: the clip is cut into equal parts, and each gives the frame at its middle.

A shot ends where the colours change at once: the histograms of two neighbouring frames differ by more than CUT (half
of the summed differences, 0 to 1), by PEAK times more than those around them, and not for the time of a flash alone. A
slow dissolve from one scene to the next is not seen as a cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling import images
from groundling.errors import DataError

FRAMES = 10  # of a clip, unless somebody wishes otherwise
MOST = 100  # frames of a clip
CONTAINERS = ("mov", "mp4", "matroska", "webm", "avi", "mpegts", "mpeg", "ogg", "flv", "asf")
SUFFIXES = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".ogv", ".flv", ".wmv"}
MAX_PACKETS = 2_000_000  # of one file: about a day at 24 frames a second
RATE = 12.0  # frames a second that are compared to find shots
MOST_COMPARED = 7_200  # of them; of a video that is longer, key frames alone, as many at most
CUT, PEAK = 0.35, 3.0
SHORTEST = 0.5  # seconds of a shot
BINS = 8  # of a histogram, for each of red, green and blue
LATE = 1.0  # seconds that may be missing at the end of a file before it counts as cut off

Segment = tuple[float, float]  # from, to, in seconds


def is_clip(path: Path | str) -> bool:
    """Is this a video, by its name, or a folder of frames?"""
    path = Path(path)
    return path.suffix.lower() in SUFFIXES or (bool(path.name) and path.is_dir() and any(_pictures(path)))


def frame_count(path: Path | str, count: int = FRAMES) -> int:
    """How many frames `frames` gives of a clip: `count`, or as many as its folder has."""
    return len(_pictures(Path(path))) if Path(path).is_dir() else count


def frames(path: Path | str, count: int = FRAMES, segment: Segment | None = None) -> Iterator[Image.Image]:
    """The frames of a clip, or of one segment of it, as RGB images; DataError names the file.

    A folder gives all its pictures, by name. A file gives `count` frames, some of them twice where it has fewer.
    """
    path = Path(path)
    if path.is_dir():
        pictures = _pictures(path)
        if not 0 < len(pictures) <= MOST:
            raise DataError(f"{path}: {len(pictures)} pictures; a folder that is a clip has 1 to {MOST}")
        return map(images.open_image, pictures)
    if not 1 <= count <= MOST:
        raise DataError(f"{count} frames of a clip were asked for; ask for 1 to {MOST}")
    return _decoded(path, count, segment)


def clip_size(path: Path | str) -> tuple[int, int]:
    """Width and height of the frames that `frames` would give."""
    if Path(path).is_dir():
        return images.image_size(_pictures(Path(path))[0])
    return next(iter(frames(path, 1))).size


def middles(count: int, start: float, end: float) -> list[float]:
    """The middles of `count` equal parts of the time from start to end."""
    return [start + (i + 0.5) / count * (end - start) for i in range(count)]


def shots(path: Path | str) -> list[Segment]:
    """The shots of a video file, at most MOST: from, to, in seconds. DataError names the file."""
    times, colours, end = _colours(Path(path))
    cuts = [times[i] for i in sorted(_cuts(colours)[: MOST - 1])]
    starts = [0.0]
    for cut in cuts:
        if cut - starts[-1] >= SHORTEST and end - cut >= SHORTEST:
            starts.append(cut)
    return list(zip(starts, [*starts[1:], end], strict=True))


def _cuts(colours: NDArray[np.float32]) -> list[int]:
    """(n, C) histograms -> the frames that begin a shot, the greatest change first."""
    change = np.abs(np.diff(colours, axis=0)).sum(1) / 2  # (n - 1,), between i and i + 1
    padded = np.pad(change, 2)
    around = np.median([padded[: len(change)], padded[1:-3], padded[3:-1], padded[4:]], axis=0)
    last = len(colours) - 1
    stays = [np.abs(colours[min(i + 3, last)] - colours[max(i - 1, 0)]).sum() / 2 > CUT for i in range(last)]
    found = [i for i in range(last) if change[i] > CUT and change[i] > PEAK * around[i] and stays[i]]
    return [i + 1 for i in sorted(found, key=lambda i: -change[i])]


def histogram(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(height, width, 3) -> how often each colour occurs, in two grids: no edge between bins decides."""
    width = 256 // BINS
    counts = np.zeros(2 * (BINS + 1) ** 3, np.float32)
    for grid, shift in enumerate((0, width // 2)):
        red, green, blue = ((pixels.reshape(-1, 3).astype(np.int64) + shift) // width).T
        at = (red * (BINS + 1) + green) * (BINS + 1) + blue + grid * (BINS + 1) ** 3
        counts += np.bincount(at, minlength=len(counts)).astype(np.float32)
    return np.asarray(counts / counts.sum(), np.float32)


def _pictures(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in images.SUFFIXES)


# ---------------------------------------------------------------- video files


def _decoded(path: Path, count: int, segment: Segment | None) -> Iterator[Image.Image]:
    with _opened(path) as (container, stream):
        stamps = _stamps(path, container, stream)
        tick = float(stream.time_base)
        first, last = stamps[0], stamps[-1]
        start, end = segment or (0.0, (last - first) * tick + _step(stamps, tick))
        if not 0 <= start < end:
            raise DataError(f"{path}: the segment from {start} s to {end} s is none; it must begin before it ends")
        if start > (last - first) * tick + LATE:
            raise DataError(
                f"{path}: a segment begins at {start:.1f} s, the video ends at {(last - first) * tick:.1f} s"
            )
        wanted = [stamps[max(0, bisect_right(stamps, first + at / tick) - 1)] for at in middles(count, start, end)]
        before: tuple[int, Image.Image] | None = None
        for stamp in wanted:
            if before is None or before[0] != stamp:
                before = stamp, _frame_at(path, container, stream, stamp)
            yield before[1]


def _colours(path: Path) -> tuple[list[float], NDArray[np.float32], float]:
    """When frames are shown, (n,) seconds, their histograms (n, C), and when the video ends."""
    times: list[float] = []
    colours: list[NDArray[np.float32]] = []
    with _opened(path) as (container, stream):
        stamps, tick = _stamps(path, container, stream), float(stream.time_base)
        end = (stamps[-1] - stamps[0]) * tick + _step(stamps, tick)
        if end * RATE > MOST_COMPARED:
            stream.codec_context.skip_frame = "NONKEY"
        apart = max(1 / RATE, end / MOST_COMPARED)
        container.seek(stamps[0], stream=stream, backward=True)
        for frame in container.decode(stream):
            at = ((frame.pts or stamps[0]) - stamps[0]) * tick
            if times and at < times[-1] + apart - tick / 2:
                continue
            _check_frame(path, frame)
            times.append(at)
            colours.append(histogram(frame.reformat(width=64, height=48, format="rgb24").to_ndarray()))
    if not times:
        raise DataError(f"{path}: not a single frame can be decoded; fetch it again")
    return times, np.stack(colours), end


def _check_frame(path: Path, frame: Any) -> None:
    if frame.width * frame.height > images.MAX_PIXELS:
        raise DataError(f"{path}: a frame of {frame.width} x {frame.height} pixels is too large")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The container and its video stream; whatever goes wrong inside the `with` becomes a DataError about the file."""
    try:
        import av
    except ImportError as error:
        raise DataError(f"{path}: videos need PyAV: pip install 'groundling[video]'") from error
    if not path.is_file():
        raise DataError(f"{path}: no such video file; check the path")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; fetch it again")
    only = {"format_whitelist": ",".join(CONTAINERS), "protocol_whitelist": "file"}
    try:
        with av.open(str(path.absolute()), options=only, metadata_errors="replace") as container:
            if not container.streams.video:
                raise DataError(f"{path}: no picture in it, only sound or data; give a video")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise DataError(f"{path}: its pictures are coded in a way that FFmpeg does not know; convert it")
            wide, high = stream.codec_context.width, stream.codec_context.height
            if not 0 < wide * high <= images.MAX_PIXELS:
                raise DataError(f"{path}: frames of {wide} x {high} pixels, 1 to {images.MAX_PIXELS:,} are read")
            yield container, stream
    except (av.FFmpegError, ValueError, MemoryError, OverflowError) as error:
        raise DataError(f"{path}: damaged or unreadable video ({error}); fetch it again or convert it") from error


def _stamps(path: Path, container: Any, stream: Any) -> list[int]:
    """When each frame is shown, in ticks, sorted; read without decoding. A file that was cut off is refused."""
    stamps: list[int] = []
    for packet in container.demux(stream):
        if packet.pts is not None and packet.size:
            stamps.append(packet.pts)
        if len(stamps) > MAX_PACKETS:
            raise DataError(f"{path}: more than {MAX_PACKETS:,} frames; cut it into shorter videos")
    if not stamps:
        raise DataError(f"{path}: not a single frame in it; fetch it again")
    stamps = sorted(set(stamps))
    tick = float(stream.time_base)
    there, declared = (stamps[-1] - stamps[0]) * tick, float(stream.duration or 0) * tick
    if declared - there - _step(stamps, tick) > LATE or len(stamps) < stream.frames * 0.9:
        raise DataError(f"{path}: cut off, {there:.1f} of {declared:.1f} seconds are there; fetch it again")
    return stamps


def _step(stamps: list[int], tick: float) -> float:
    """Seconds for which a frame is shown, on average."""
    return (stamps[-1] - stamps[0]) * tick / (len(stamps) - 1) if len(stamps) > 1 else 0.04


def _frame_at(path: Path, container: Any, stream: Any, stamp: int) -> Image.Image:
    """Back to the key frame before, then on to the frame shown at this tick; from the start where seeking misses it."""
    container.seek(stamp, stream=stream, backward=True)
    frame = _on_to(stamp, container, stream, may_miss=True)
    if frame is None:
        with _opened(path) as (again, its_stream):
            frame = _on_to(stamp, again, its_stream)
    if frame is None:
        at = stamp * float(stream.time_base)
        raise DataError(f"{path}: the frame at {at:.1f} s cannot be decoded; fetch it again")
    _check_frame(path, frame)
    return upright(frame.to_image(), getattr(frame, "rotation", 0))


def _on_to(stamp: int, container: Any, stream: Any, may_miss: bool = False) -> Any:
    """The first frame at or after a tick, decoding from here; None if there is none, or one before may be missed."""
    for i, frame in enumerate(container.decode(stream)):
        if frame.pts is not None and frame.pts >= stamp:
            return None if may_miss and i == 0 and frame.pts > stamp else frame
    return None


def upright(image: Image.Image, rotation: int) -> Image.Image:
    """As a player shows it: phones film sideways and note by how many degrees to turn, against the clock."""
    return image.rotate(rotation, expand=True) if rotation % 360 else image
