"""What importers read, before it is checked: arrays under the many names that people gave them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.tensors import Regions

Array = NDArray[Any]
Size = tuple[float, float]

MAX_BYTES = 1 << 27  # of one image, as float32; more is a mistake or an attack

LIKELIEST = 5  # classes of a region that are kept, where a file has the probabilities of all
NAMES = {  # what we call it -> what others do
    "feats": ("features", "feats", "feat", "x", "att_feats", "roi_features"),
    "boxes": ("boxes", "bbox", "bboxes", "box"),
    "count": ("num_boxes", "num_bbox", "num_box"),
    "width": ("image_w", "img_w", "image_width", "width"),
    "height": ("image_h", "img_h", "image_height", "height"),
    "size": ("size", "image_size"),  # width, height
    "frame": ("frame", "frames"),
    "labels": ("objects_id", "labels", "classes", "objects"),
    "scores": ("objects_conf", "scores", "conf"),
    "probs": ("cls_prob",),  # all classes, the background first
    "whole": ("global", "fc", "global_features"),
    "grid": ("grid", "conv", "conv_features", "feature_map"),  # (C, G), or (H, W, G)
}


@dataclass(frozen=True)
class Raw:
    """One image as a file gives it. Labels count from 0 without a background class, -1 where unknown."""

    feats: Array  # (R, D), or (D, R) where the boxes tell so
    boxes: Array  # (R, 4) xyxy, in pixels, or in fractions of the image when none is above 1
    size: Size | None = None
    frame: Array | None = None  # (R,)
    labels: Array | None = None  # (R,), or (R, L), the likeliest first
    scores: Array | None = None  # as labels
    whole: Array | None = None  # (G,)
    grid: Array | None = None  # (C, G)


@dataclass
class Budget:
    """What the arrays of one image may take together, counted before they are read."""

    where: str  # file and key, for messages
    left: int = MAX_BYTES

    def spend(self, shape: Sequence[int], kind: np.dtype[Any]) -> None:
        """DataError where an array of this shape is too much. Numbers become float32, so each takes 4 bytes or more."""
        self.left -= math.prod(shape) * max(4, kind.itemsize)
        if self.left < 0 or min(shape, default=0) < 0:
            raise DataError(f"{self.where}: {tuple(shape)} numbers for one image; at most {MAX_BYTES:,} bytes are read")


@dataclass(frozen=True)
class Entry:
    """One image of a source, read only when `load` is called."""

    id: str
    where: str  # file and line, or key, for messages
    share: float  # of the whole source, up to and including this image
    load: Callable[[], Raw]


def named(arrays: Mapping[str, Any], where: str) -> Raw:
    """Arrays by any of the usual names -> Raw; the mapping may read them lazily."""
    chosen = {ours: _first(arrays, names) for ours, names in NAMES.items()}
    if chosen["feats"] is None or chosen["boxes"] is None:
        has = ", ".join(sorted(arrays)) or "nothing"
        raise DataError(f"{where}: needs features ({_or('feats')}) and boxes ({_or('boxes')}), has {has}")
    size = None
    if chosen["width"] is not None and chosen["height"] is not None:
        size = _number(chosen["width"], where), _number(chosen["height"], where)
    elif chosen["size"] is not None and chosen["size"].size == 2:
        size = _number(chosen["size"].flat[0], where), _number(chosen["size"].flat[1], where)
    labels, scores = chosen["labels"], chosen["scores"]
    if chosen["probs"] is not None and chosen["probs"].ndim == 2 and chosen["probs"].shape[1] > 1:
        probs = _numbers(chosen["probs"], "probabilities of classes", where)[:, 1:]
        likeliest = np.argsort(-probs, axis=1, kind="stable")[:, :LIKELIEST]
        if labels is None or np.array_equal(labels.reshape(-1), likeliest[:, 0]):  # both count classes alike
            labels, scores = likeliest, np.take_along_axis(probs, likeliest, 1)
    raw = Raw(chosen["feats"], chosen["boxes"], size, chosen["frame"], labels, scores, chosen["whole"], chosen["grid"])
    return raw if chosen["count"] is None else first(raw, int(_number(chosen["count"], where)), where)


def first(raw: Raw, count: int, where: str) -> Raw:
    """Only the first `count` regions; the rest was padding."""
    if not 0 < count <= len(raw.boxes):
        raise DataError(f"{where}: says {count} boxes, holds {len(raw.boxes)}")
    feats = raw.feats if raw.feats.ndim != 2 or len(raw.feats) == len(raw.boxes) else raw.feats.T
    cut = {name: None if (x := getattr(raw, name)) is None else x[:count] for name in ("frame", "labels", "scores")}
    return replace(raw, feats=feats[:count], boxes=raw.boxes[:count], **cut)


def regions(raw: Raw, where: str, size: Size | None) -> Regions:
    """Checked regions of one image; `size` is used when the file does not know it."""
    size = raw.size or size
    if size is None:
        cure = "give --images FOLDER to look it up, or --size WIDTHxHEIGHT"
        raise DataError(f"{where}: the size of the image is not recorded; {cure}")
    if not all(0 < x < 1e6 for x in size):
        raise DataError(f"{where}: an image of {size[0]!s:.20} x {size[1]!s:.20} pixels")
    boxes = _numbers(raw.boxes, "boxes", where)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not len(boxes):
        raise DataError(f"{where}: boxes must be (R, 4) with R > 0, got {boxes.shape}")
    r, feats = len(boxes), _numbers(raw.feats, "features", where)
    if feats.ndim == 2 and len(feats) != r and feats.shape[1] == r:
        feats = feats.T
    if feats.ndim != 2 or len(feats) != r or not feats.shape[1]:
        raise DataError(f"{where}: features {feats.shape} do not fit {r} boxes")
    more: dict[str, Array] = {}
    if raw.frame is not None:
        more["frame"] = _column(raw.frame, r, "frames", where)
    if raw.labels is not None:
        each = raw.labels.shape[1] if raw.labels.ndim == 2 and len(raw.labels) == r else 1
        more["labels"] = _column(raw.labels, r * each, "labels", where).reshape(r, each)
        more["scores"] = _scores(raw.scores, r * each, where).reshape(r, each)
    if raw.whole is not None:
        more["whole"] = _numbers(raw.whole, "global feature", where).reshape(-1)
    if raw.grid is not None:
        grid = _numbers(raw.grid, "feature map", where)
        if grid.ndim not in (2, 3) or not grid.size:
            raise DataError(f"{where}: a feature map is (cells, size) or (height, width, size), got {grid.shape}")
        more["grid"] = np.ascontiguousarray(grid.reshape(-1, grid.shape[-1]))
    tensors = {name: torch.from_numpy(array) for name, array in more.items()}
    boxes = _pixels(boxes, size, where)
    return Regions.of(torch.from_numpy(np.ascontiguousarray(feats)), torch.from_numpy(boxes), size, **tensors)


def _pixels(boxes: NDArray[np.float32], size: Size, where: str) -> NDArray[np.float32]:
    """xyxy in pixels, with the mistakes that people make refused: x y w h, the wrong image, the wrong scale."""
    if not np.isfinite(boxes).all():
        raise DataError(f"{where}: boxes hold numbers that are not finite")
    if boxes.max() <= 1 and min(size) > 2:
        boxes = boxes * np.array([*size, *size], np.float32)
    bad = np.flatnonzero((boxes[:, 2:] < boxes[:, :2]).any(1))
    if len(bad):
        raise DataError(f"{where}: box {bad[0]} is {boxes[bad[0]].tolist()}; left, top, right, bottom are expected")
    slack = 2 + 0.01 * max(size)  # detectors round outwards
    out = np.flatnonzero((boxes[:, :2] < -slack).any(1) | (boxes[:, 2:] > np.array(size) + slack).any(1))
    if len(out):
        shown = f"{size[0]:g} x {size[1]:g}"
        raise DataError(f"{where}: box {out[0]} is {boxes[out[0]].tolist()}, outside of an image of {shown} pixels")
    return np.ascontiguousarray(boxes, np.float32)


def _numbers(x: Any, what: str, where: str) -> NDArray[np.float32]:
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{where}: {what} are {array.dtype}, not numbers")
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, and is refused by name when it is written
        return array.astype(np.float32)


def _scores(x: Array | None, count: int, where: str) -> NDArray[np.float32]:
    """A label without a score is taken as certain."""
    scores = np.ones(count, np.float32) if x is None else _numbers(x, "scores", where).reshape(-1)
    if len(scores) != count:
        raise DataError(f"{where}: {len(scores)} scores for {count} boxes")
    return scores


def _column(x: Array, count: int, what: str, where: str) -> NDArray[np.int64]:
    numbers = _numbers(x, what, where).reshape(-1)
    if len(numbers) != count:
        raise DataError(f"{where}: {len(numbers)} {what} for {count} boxes")
    if not (np.isfinite(numbers).all() and (np.abs(numbers) < 2**24).all() and (numbers == np.round(numbers)).all()):
        raise DataError(f"{where}: {what} are not whole numbers")
    return numbers.astype(np.int64)


def _number(x: Any, where: str) -> float:
    array = np.asarray(x)
    if array.size != 1 or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise DataError(f"{where}: {x!r} is not a number")
    return float(array.reshape(())[()])


def _first(arrays: Mapping[str, Any], names: tuple[str, ...]) -> Array | None:
    return next((np.asarray(arrays[name]) for name in names if name in arrays), None)


def _or(ours: str) -> str:
    return " or ".join(NAMES[ours])
