"""The layout of Grounded Video Description (Zhou et al. 2019): a folder with

- `dic_*.json`: `images` (or `videos`), whose `id` is the id of each row below;
- one .h5 file with `dets_labels`: for images (N, R, 6), rows of x1 y1 x2 y2 class score; for video (N, R, 7), rows of
  x1 y1 x2 y2 frame class score, or (N, F, R, 6); and `nms_num` (images) or `dets_num` (video), how many rows are real;
- a folder of features, `ID.npy`: (R, D), for video (F, R, D);
- for video, where there is one, a folder of features of frames, `VIDEO_resnet.npy` and `VIDEO_bn.npy`, (frames, size),
  VIDEO being the id without `v_` and `_segment_N`. From when to when a segment is in its video is told by the reference
  of ActivityNet-Entities, which lies beside: `anet_entities_cleaned_class_thresh50_trainval.json`. Files that are named
  by the id, `ID_resnet.npy`, are of the segment alone;
- for images, where there are any, folders with what is known of a whole image: `ID_conv.npy`, a feature map (H, W, G)
  or (cells, G), and `ID_fc.npy`, a vector. The authors release neither: their captioner computes both from the image
  while it trains.
The features of a segment's frames become its feature map, and the mean of that the vector of the whole segment. The
vector of the authors' code is the mean of the whole video, with the times of the segment added.
Class 0 is the background: labels here count from the class after it. Boxes of videos are in frames 720 pixels wide,
whose height is not recorded unless the file has `hw`: then the size is 720 x 720, by which the authors divide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.files import parse_json, read_text
from groundling.regions.importers.hdf5 import guarded, member, opened, read
from groundling.regions.importers.npy import read_npy
from groundling.regions.importers.raw import Array, Budget, Entry, Raw, Size

FORMAT = "gvd"
LOOKS_FOR = "a folder with dic_*.json, an .h5 file of detections (dets_labels) and a folder of ID.npy"

MAP = 10  # stretches of time in the feature map of a segment
VIDEO: Size = (720.0, 720.0)
FRAMES = 480  # features of frames of a video that count, as in the authors' code
SEGMENT = re.compile(r"(v_)?(?P<video>.+)_segment_(?P<number>[0-9]+)")

Window = tuple[float, float]  # begin and end of a segment, in parts of its video
Windows = Mapping[tuple[str, int], Window]  # by video and number of the segment


def claims(path: Path) -> bool:
    return path.is_dir() and any(path.glob("dic_*.json")) and any(path.glob("*.h5"))


def entries(path: Path) -> Iterator[Entry]:
    ids, video = _ids(_only(path, "dic_*.json"))
    detections = _only(path, "*.h5")
    with opened(detections) as file, guarded(str(detections)):
        table = member(file, "dets_labels", str(detections))
        if table is None:
            raise DataError(f"{detections}: has no dets_labels; expected {LOOKS_FOR}")
        if len(table) != len(ids):
            raise DataError(f"{detections}: {len(table)} rows for {len(ids)} ids; are they of one release?")
        folder, windows = _features(path, ids), _windows(path) if video else {}
        for row, id in enumerate(ids):
            load = partial(_load, file, detections, row, folder / f"{id}.npy", video, windows)
            yield Entry(id, f"{detections}, row {row} ({id})", (row + 1) / len(ids), load)


def _only(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise DataError(f"{folder}: {len(files)} files match {pattern}, one is expected")
    return files[0]


def _ids(path: Path) -> tuple[list[str], bool]:
    """Ids in the order of the detections, and whether they are of video segments."""
    plain = parse_json(read_text(path), str(path))
    try:
        video = "videos" in plain
        ids = [str(row["id"]) for row in plain["videos" if video else "images"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: needs a list of images or videos with ids: {type(error).__name__}: {error}"
        ) from error
    if wrong := next((id for id in ids if not id or set("/\\\0") & set(id)), None):
        raise DataError(
            f"{path}: the id {wrong[:60]!r} is not the name of a file: features are looked for in one folder"
        )
    return ids, video


def _features(path: Path, ids: list[str]) -> Path:
    """The folder that has the features; some segments of the release have none."""
    for folder in sorted(folder for folder in path.iterdir() if folder.is_dir()):
        if any((folder / f"{id}.npy").exists() for id in ids[:100]):
            return folder
    raise DataError(f"{path}: no folder below it holds features such as {ids[0] if ids else 'ID'}.npy")


def _load(file: Any, detections: Path, row: int, features: Path, video: bool, windows: Windows) -> Raw:
    where = f"{detections}, row {row}"
    if not features.exists():
        raise DataError(f"{where}: its features are missing, {features}")
    with guarded(where):
        table, counts, feats = _rows(file, where, row, "dets_num" if video else "nms_num", read_npy(features))
        size = _size(file, where, row) or (VIDEO if video else None)
    frame = np.repeat(np.arange(len(counts)), counts) if len(counts) > 1 else None
    if table.shape[1] == 7:
        frame = table[:, 4]
    grid, whole = _map(features, windows), _beside(features, features.stem, "fc")
    if whole is None and grid is not None:
        whole = grid.mean(0)
    return Raw(feats, table[:, :4], size, frame, table[:, -2] - 1, table[:, -1], whole, grid)


def _map(features: Path, windows: Windows) -> Array | None:
    """(cells, G) float32: the feature map of an image, or the frames of a segment; None without either."""
    grid = _beside(features, features.stem, "conv")
    if grid is None:
        return _frames(features, windows)
    if grid.ndim not in (2, 3) or not grid.size:
        expected = "(cells, size) or (height, width, size)"
        raise DataError(f"{features}: its feature map must be {expected}, got {grid.shape}")
    return grid.reshape(-1, grid.shape[-1]).astype(np.float32)


def _beside(features: Path, stem: str, kind: str) -> Array | None:
    """What the file STEM_KIND.npy in any folder beside that of the features holds; None without one."""
    folders = sorted(folder for folder in features.parent.parent.iterdir() if folder.is_dir())
    files = [file for folder in folders if (file := folder / f"{stem}_{kind}.npy").exists()]
    if not files:
        return None
    array = read_npy(files[0])
    if array.dtype.kind not in "fiu":
        raise DataError(f"{files[0]}: holds {array.dtype}, not numbers")
    return array


def _frames(features: Path, windows: Windows) -> Array | None:
    """(MAP, G): features of frames that lie in another folder beside, of the segment or of its video; None without.

    They are the map that a captioner attends to beside the regions. A store has one shape of it for all: the frames of
    a segment are averaged into MAP stretches of time.
    """
    segment = SEGMENT.fullmatch(features.stem)
    arrays, whole_video = _of_frames(features, features.stem), False
    if not arrays and segment:
        arrays, whole_video = _of_frames(features, segment["video"]), True
    if not arrays:
        return None
    if any(x.ndim != 2 or not x.size for x in arrays):
        raise DataError(f"{features}: features of frames must be (frames, size), got {[x.shape for x in arrays]}")
    count = min(len(x) for x in arrays)
    joined = np.concatenate([x[:count] for x in arrays], 1).astype(np.float32)
    if whole_video and segment:
        joined = _cut(joined, windows.get((segment["video"], int(segment["number"]))), features)
        count = len(joined)
    ends = np.linspace(0, count, MAP + 1)
    return np.stack([joined[int(a) : max(int(a) + 1, int(b))].mean(0) for a, b in zip(ends, ends[1:], strict=False)])


def _of_frames(features: Path, stem: str) -> list[Array]:
    found = (_beside(features, stem, kind) for kind in ("resnet", "bn"))
    return [array for array in found if array is not None]


def _cut(video: Array, window: Window | None, features: Path) -> Array:
    """The frames of a segment among those of its video; at least one."""
    if window is None:
        raise DataError(
            f"{features}: the features of frames are of the whole video, and no file tells when the segment is in it; "
            f"put the reference of its split (for train and val anet_entities_cleaned_class_thresh50_trainval.json) "
            f"into {features.parent.parent}"
        )
    last = min(len(video), FRAMES)
    first, end = (min(max(round(len(video) * part), 0), last) for part in window)
    first = min(first, last - 1)
    return video[first : max(first + 1, end)]


def _windows(path: Path) -> dict[tuple[str, int], Window]:
    """Begin and end of each segment, by video and number, of the references in the folder."""
    found: dict[tuple[str, int], Window] = {}
    for file in sorted(path.glob("*.json")):
        if file.name.startswith("dic_"):
            continue
        plain = parse_json(read_text(file), str(file))
        videos = plain.get("annotations") if isinstance(plain, dict) else None
        try:
            for name, video in videos.items() if isinstance(videos, dict) else ():
                for number, segment in video["segments"].items():
                    begin, end = (float(time) / float(video["duration"]) for time in segment["timestamps"])
                    if not -1 < begin <= end < 1e6:
                        raise ValueError(f"{name}, segment {number}: {segment['timestamps']} of {video['duration']} s")
                    found[name.removeprefix("v_"), int(number)] = begin, end
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise DataError(
                f"{file}: not a reference of ActivityNet-Entities: {type(error).__name__}: {error}"
            ) from error
    return found


def _rows(file: Any, where: str, row: int, name: str, feats: Array) -> tuple[Array, Array, Array]:
    """The real detections (R, 6 or 7), how many in each frame (all in one for 7), and their features (R, D)."""
    budget, numbers = Budget(where), member(file, name, where)
    if numbers is None:
        raise DataError(f"{where}: the file has no {name}")
    table = read(member(file, "dets_labels", where), budget, row)
    counts = np.atleast_1d(read(numbers, budget, row)).astype(np.int64)
    if feats.ndim not in (2, 3) or not feats.size:
        raise DataError(f"{where}: features {feats.shape}; (R, D) or (F, R, D) is expected")
    if table.ndim == 2:  # one list
        table, feats = table[None], feats.reshape(1, -1, feats.shape[-1])
    if table.ndim != 3 or table.shape[2] not in (6, 7) or counts.shape != (len(table),) or feats.ndim != 3:
        raise DataError(
            f"{where}: detections {table.shape}, counts {counts.shape} and features {feats.shape} do not fit"
        )
    counts = counts[: len(feats)]  # features end with the last frame of a short segment
    if counts.sum() < 1 or counts.min() < 0 or counts.max() > min(table.shape[1], feats.shape[1]):
        raise DataError(f"{where}: {counts.tolist()} detections, {table.shape[1]} rows, {feats.shape[1]} features")
    if table.shape[2] == 7 and counts[0] != feats.shape[1]:
        raise DataError(f"{where}: {counts[0]} detections for {feats.shape[1]} features")
    real = [(rows[:n], vectors[:n]) for rows, vectors, n in zip(table, feats, counts, strict=False)]
    return np.concatenate([a for a, _ in real]), counts, np.concatenate([b for _, b in real])


def _size(file: Any, where: str, row: int) -> Size | None:
    sides = member(file, "hw", where)
    if sides is None:
        return None
    height, width = read(sides, Budget(where), row).reshape(-1)[:2]
    return float(width), float(height)
