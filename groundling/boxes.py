"""Geometry of boxes: xyxy, pixels, continuous coordinates (no +1), on the last axis of any tensor or array.

Tensors bring torch with them; arrays need numpy alone, so torch is imported by the functions of tensors.

The official grounding evaluators count pixels inclusively and in float32; their arithmetic is in
`groundling.metrics`, so that it cannot leak into models and these functions cannot leak into scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

from groundling.types import MATCH_IOU, MATCH_WIDTH


def area(boxes: Tensor) -> Tensor:
    """(..., 4) -> (...); an inverted box has area 0."""
    wh = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return wh[..., 0] * wh[..., 1]


def intersection(a: Tensor, b: Tensor) -> Tensor:
    """(..., A, 4), (..., B, 4) -> (..., A, B), area shared by each pair."""
    import torch

    low = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    high = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    wh = (high - low).clamp(min=0)
    return wh[..., 0] * wh[..., 1]


def iou(a: Tensor, b: Tensor) -> Tensor:
    """(..., A, 4), (..., B, 4) -> (..., A, B), intersection over union; 0 where both boxes are empty."""
    both = intersection(a, b)
    either = area(a)[..., :, None] + area(b)[..., None, :] - both
    return both / either.clamp(min=1e-9)


def iou_of_arrays(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """`iou` of arrays: (A, 4), (B, 4) -> (A, B)."""
    first, second = a.T[..., None], b.T  # by coordinate: sums over an axis of two numbers are slow
    wide, high = (np.minimum(first[i + 2], second[i + 2]) - np.maximum(first[i], second[i]) for i in (0, 1))
    both = wide.clip(0) * high.clip(0)
    area, other = ((x[2] - x[0]).clip(0) * (x[3] - x[1]).clip(0) for x in (first, second))
    return np.asarray(both / (area + other - both).clip(1e-9))


def soft_iou_match(boxes: Tensor) -> Tensor:
    """(…, R, R): whether two boxes match, IoU > 0.5, as a soft step from 0 to 1.

    Multiplied by the probability that a thing is in each box, it gives the probability that a box finds the thing. The
    best box is often not the likeliest one, if that overlaps with few others.
    """
    return ((iou(boxes, boxes) - MATCH_IOU) / MATCH_WIDTH).sigmoid()


def soft_match_of_arrays(boxes: NDArray[Any]) -> NDArray[np.float32]:
    """`soft_iou_match` of an array: (R, 4) -> (R, R)."""
    steps = (iou_of_arrays(boxes, boxes) - np.float32(MATCH_IOU)) / np.float32(MATCH_WIDTH)
    return np.asarray(1 / (1 + np.exp(-steps)), np.float32)


def union(boxes: Tensor, where: Tensor) -> Tensor:
    """The smallest box around the boxes in `where`: (..., R, 4), (..., R) bool -> (..., 4); NaN where none is."""
    import torch

    inf = torch.full_like(boxes, float("inf"))
    low = torch.where(where[..., None], boxes, inf)[..., :2].amin(-2)
    high = torch.where(where[..., None], boxes, -inf)[..., 2:].amax(-2)
    none = ~where.any(-1, keepdim=True)
    return torch.cat([low, high], -1).masked_fill(none, float("nan"))


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Indices kept by greedy non-maximum suppression, best score first: (R, 4), (R,) -> (K,)."""
    import torch

    order = scores.argsort(descending=True, stable=True)
    overlap = iou(boxes[order], boxes[order])
    alive = torch.ones(len(order), dtype=torch.bool)
    for i in range(len(order)):
        if alive[i]:
            alive[i + 1 :] &= overlap[i, i + 1 :] <= threshold
    return order[alive]
