"""Features of boxes: means of a map, places, what a detector says of them.

Boxes are xyxy in units of the image, 0 to 1. R regions · C channels or classes · L labels.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.boxes import iou

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

PLACE = 5  # numbers that say where a box is
NEAR = 0.5  # IoU from which a detector's box speaks for a region
QUIET = 0.02  # probability below which it says nothing
THINNEST = 0.01  # cells of a map; a thinner box is pooled as if it were so wide


def box_means(grid: Floats, boxes: Floats) -> Floats:
    """Exact mean of a map over each box, every cell counted by the share of it that is inside: (C, H, W) -> (R, C).

    The share of a cell is the product of its overlaps along x and y: two thin matrices and one product.
    """
    channels, height, width = grid.shape
    across = _overlaps(boxes[:, [0, 2]] * width, width)  # (R, W)
    down = _overlaps(boxes[:, [1, 3]] * height, height)  # (R, H)
    weights = (down[:, :, None] * across[:, None, :]).reshape(len(boxes), -1)
    # torch's product: numpy's would bring threads of its own, which wait busily
    return (torch.from_numpy(weights) @ torch.from_numpy(grid).reshape(channels, -1).T).numpy()


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


def place(boxes: Floats) -> Floats:
    """(R, 5): left, top, right, bottom, area."""
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1, keepdims=True)
    return np.concatenate([boxes, area], axis=1)


def heard(boxes: Floats, detected: Floats, scores: Floats) -> Floats:
    """What a detector says of regions, (R, C): the maximum of IoU · p over its boxes with IoU ≥ 1/2.

    Its boxes are `detected` (N, 4), with probabilities `scores` (N, C). All 0 for a region that none is near.
    """
    some = scores.max(1) >= QUIET
    detected, scores = detected[some], scores[some]
    overlap = iou(torch.from_numpy(boxes), torch.from_numpy(detected)).numpy()  # (R, N)
    said = np.zeros((len(boxes), scores.shape[1]), np.float32)
    for r, weights in enumerate(overlap):
        near = weights >= NEAR
        if near.any():
            said[r] = (weights[near, None] * scores[near]).max(0)
    return said


def likeliest(scores: Floats, count: int) -> tuple[Ints, Floats]:
    """The best classes of each region, (R, L) labels and scores; label -1 where the score is 0."""
    count = min(count, scores.shape[1])
    labels = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    best = np.take_along_axis(scores, labels, axis=1)
    return np.where(best > 0, labels, -1), best


def _overlaps(spans: Floats, cells: int) -> Floats:
    """(R, 2) -> (R, cells): the share of each span that lies in each unit cell; rows sum to 1."""
    half = np.maximum(np.diff(spans, axis=1) / 2, THINNEST / 2)
    middle = np.clip(spans.mean(1, keepdims=True), half, cells - half)
    left = np.arange(cells, dtype=np.float32)
    inside = np.minimum(middle + half, left + 1) - np.maximum(middle - half, left)
    share: Floats = np.maximum(inside, 0).astype(np.float32) / (2 * half).astype(np.float32)
    return share
