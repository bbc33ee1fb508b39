"""Overlap of boxes as the official grounding evaluators count it: whole pixels, both ends included, in float32.

    w = x2 - x1 + 1,  h = y2 - y1 + 1,  IoU = i / (a + b - i)

where i multiplies the shared extents, also + 1, at least 0. Three rules of theirs are kept because scores depend on
them: a truth of one pixel overlaps nothing (0), a prediction of one pixel less than nothing (-1), and a box given
upside down is not turned round. A NaN or infinite coordinate never hits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float32]


def iou(predicted: Boxes, truth: Boxes) -> NDArray[np.float32]:
    """(..., 4), (..., 4) -> (...), pair by pair; NaN where a coordinate is."""
    with np.errstate(all="ignore"):
        low = np.maximum(predicted[..., :2], truth[..., :2])
        high = np.minimum(predicted[..., 2:4], truth[..., 2:4])
        shared = _area(np.maximum(high - low + np.float32(1), np.float32(0)))
        sides, true_sides = _sides(predicted), _sides(truth)
        overlap = shared / (_area(sides) + _area(true_sides) - shared)
    overlap = np.where((true_sides == 1).all(-1), np.float32(0), overlap)
    return np.where((sides == 1).all(-1), np.float32(-1), overlap)


def contains(outer: Boxes, inner: Boxes) -> NDArray[np.bool_]:
    """(..., 4), (..., 4) -> (...), pair by pair; edges may touch. One pixel, or a box upside down, is no box here."""
    edges = (outer[..., :2] <= inner[..., :2]).all(-1) & (inner[..., 2:4] <= outer[..., 2:4]).all(-1)
    return np.asarray(edges & _is_box(outer) & _is_box(inner))


def as_boxes(value: Any) -> Boxes:
    """A JSON list of boxes, (n, 4 or more) numbers, as float32 (n, 4); columns after the fourth are dropped.

    Raises ValueError with a few words on what is wrong; the caller knows the file and the place.
    """
    if not isinstance(value, list):
        raise ValueError(f"expected a list of boxes, got {type(value).__name__}")
    if not value:
        return np.zeros((0, 4), np.float32)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError("boxes must all have the same number of coordinates") from None
    if array.dtype.kind not in "iuf":
        raise ValueError("coordinates must be numbers")
    if array.ndim != 2 or array.shape[1] < 4:
        raise ValueError(f"expected boxes of 4 numbers, x1, y1, x2, y2, got an array of shape {array.shape}")
    with np.errstate(over="ignore"):
        return array[:, :4].astype(np.float32)


def _is_box(boxes: Boxes) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        sides = _sides(boxes)
    return np.asarray((sides >= 1).all(-1) & (sides > 1).any(-1))


def _sides(boxes: Boxes) -> NDArray[np.float32]:
    return np.asarray(boxes[..., 2:4] - boxes[..., :2] + np.float32(1))


def _area(sides: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(sides[..., 0] * sides[..., 1])
