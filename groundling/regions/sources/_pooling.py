"""Feature maps pooled over boxes, and a detector's scores of boxes. Arrays in, arrays out, no torch.

Boxes are xyxy in units of the image, 0 to 1. R regions · C channels or classes · G cells · L labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling.boxes import iou_of_arrays

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

POSITION = 5  # numbers that say where a box is
NEAR = 0.5  # IoU from which a detector's box counts for a region
LEAST_SCORE = 0.02  # probability below which a detection is left out
THINNEST = 0.01  # cells of a map; a thinner box is pooled as if it were so wide
STRIDE = 32  # pixels of the input per cell of the map
LONG_SIDE = 512  # pixels; larger photos are made so large first
LABELS, WORDS = 5, 8  # likeliest classes, and words, kept per region
LIKELY = 0.2  # probability from which a word of the image may be a region's label


def box_weights(boxes: Floats, height: int, width: int) -> Floats:
    """(R, G): how much each cell of a map counts in the mean over each box, by the share of it that is inside.

    The share of a cell is the product of its overlaps along x and y.
    """
    across = _overlaps(boxes[:, [0, 2]] * width, width)  # (R, W)
    down = _overlaps(boxes[:, [1, 3]] * height, height)  # (R, H)
    return (down[:, :, None] * across[:, None, :]).reshape(len(boxes), -1)


def _overlaps(spans: Floats, cells: int) -> Floats:
    """(R, 2) -> (R, cells): the share of each span that lies in each unit cell; rows sum to 1."""
    half = np.maximum(np.diff(spans, axis=1) / 2, THINNEST / 2)
    middle = np.clip(spans.mean(1, keepdims=True), half, cells - half)
    left = np.arange(cells, dtype=np.float32)
    inside = np.minimum(middle + half, left + 1) - np.maximum(middle - half, left)
    share: Floats = np.maximum(inside, 0).astype(np.float32) / (2 * half).astype(np.float32)
    return share


def window_weights(side: int, height: int, width: int) -> Floats:
    """(side², G): each cell's share in the means of a map over side x side windows.

    Window i of n along an axis of m cells is from ⌊i m / n⌋ to ⌈(i + 1) m / n⌉: windows may share cells, so that none
    is empty where there are fewer cells than windows.
    """
    down, across = (_windows(side, cells) for cells in (height, width))
    return (down[:, None, :, None] * across[None, :, None, :]).reshape(side * side, -1)


def _windows(count: int, cells: int) -> Floats:
    """(count, cells): rows sum to 1."""
    i, cell = np.arange(count)[:, None], np.arange(cells)
    inside = (cell >= i * cells // count) & (cell < -(-(i + 1) * cells // count))
    return np.asarray(inside / inside.sum(1, keepdims=True), np.float32)


def cell_shares(boxes: Floats, height: int, width: int) -> Floats:
    """(R, height · width): the share of each cell of a map that is inside each box."""
    edges = [boxes[:, [0, 2]] * width, boxes[:, [1, 3]] * height]
    across, down = (_covered(span, cells) for span, cells in zip(edges, (width, height), strict=True))
    return (down[:, :, None] * across[:, None, :]).reshape(len(boxes), -1)


def _covered(spans: Floats, cells: int) -> Floats:
    """(R, 2) -> (R, cells): the share of each unit cell that lies in each span."""
    left = np.arange(cells, dtype=np.float32)
    inside = np.minimum(spans[:, 1:], left + 1) - np.maximum(spans[:, :1], left)
    covered: Floats = np.clip(inside, 0, 1).astype(np.float32)
    return covered


def positions(boxes: Floats) -> Floats:
    """(R, 5): left, top, right, bottom, area."""
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1, keepdims=True)
    return np.concatenate([boxes, area], axis=1)


def detector_scores(boxes: Floats, detected: Floats, scores: Floats) -> Floats:
    """What a detector says of regions, (R, C): the maximum of IoU · p over its boxes with IoU ≥ 1/2.

    Its boxes are `detected` (N, 4), with probabilities `scores` (N, C). All 0 for a region that none is near.
    """
    some = scores.max(1) >= LEAST_SCORE
    detected, scores = detected[some], scores[some]
    overlap = iou_of_arrays(boxes, detected)  # (R, N)
    best = np.zeros((len(boxes), scores.shape[1]), np.float32)
    region, near = np.nonzero(overlap >= NEAR)
    if len(region):
        starts = np.flatnonzero(np.diff(region, prepend=-1))
        best[region[starts]] = np.maximum.reduceat(overlap[region, near, None] * scores[near], starts)
    return best


def likeliest(scores: Floats, count: int) -> tuple[Ints, Floats]:
    """The best classes of each region, (R, L) labels and scores; label -1 where the score is 0."""
    count = min(count, scores.shape[1])
    labels = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    best = np.take_along_axis(scores, labels, axis=1)
    return np.where(best > 0, labels, -1), best


def fit(image: Image.Image) -> Image.Image:
    """The image, its long side no more than LONG_SIDE; no side vanishes."""
    scale = LONG_SIDE / max(image.size)
    if scale >= 1:
        return image
    width, height = (max(1, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)


def pixel_array(image: Image.Image, long_side: int) -> Floats:
    """(1, 3, H, W), (x − 127) / 128: the image with its long side as given and both rounded to multiples of 32."""
    scale = long_side / max(image.size)
    width, height = (max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in image.size)
    resized = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0), np.float32)
    return np.ascontiguousarray(((resized - 127.0) / 128.0).transpose(2, 0, 1)[None])
