"""Segments of a picture of flat colours, and the hierarchy of their mergers. Arrays in, arrays out.

S segments · M proposals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SMALLEST = 14  # pixels; smaller segments join a neighbour


@dataclass(frozen=True)
class Segments:
    """What the pixels fell into, and how the pieces touch."""

    of: Ints  # (H, W), the segment of each pixel
    boxes: Ints  # (S, 4), right and bottom outside
    area: Floats  # (S,)
    colour: Floats  # (S, 3), mean
    border: Floats  # (S, S), how many pixels of one touch the other
    ground: Bools  # (S,), does it reach from one side of the picture to the other?


def components(first: Ints, second: Ints, count: int) -> Ints:
    """(count,) numbers 0 .. C - 1 of the connected components of a graph, given the two ends of its edges."""
    root = np.arange(count)
    while True:
        low = np.minimum(root[first], root[second])
        new = root.copy()
        np.minimum.at(new, root[first], low)
        np.minimum.at(new, root[second], low)
        while True:
            jumped = new[new]
            if np.array_equal(jumped, new):
                break
            new = jumped
        if np.array_equal(new, root):
            return np.unique(root, return_inverse=True)[1].reshape(-1)
        root = new


def segment(pixels: Floats, step: float) -> Segments:
    """(H, W, 3) -> segments: neighbouring pixels that differ by less than `step` in every channel belong together."""
    high, wide = pixels.shape[:2]
    across = np.abs(np.diff(pixels, axis=1)).max(-1) < step  # (H, W - 1)
    down = np.abs(np.diff(pixels, axis=0)).max(-1) < step  # (H - 1, W)
    starts = np.ones((high, wide), bool)
    starts[:, 1:] = ~across
    runs = (np.cumsum(starts) - 1).reshape(high, wide)  # pixels of a row that belong together
    label = components(runs[:-1][down], runs[1:][down], int(runs[-1, -1]) + 1)[runs]
    return _describe(_absorb(label, pixels), pixels)


def _absorb(label: Ints, pixels: Floats) -> Ints:
    """Let each small segment join the neighbour whose colour is nearest, until none is small."""
    while True:
        count = int(label.max()) + 1
        area = np.bincount(label.ravel(), minlength=count)
        small = area < SMALLEST
        if count < 2 or not small.any():
            return label
        colour = _means(label, pixels, area)
        first, second = _touching(label)
        first, second = np.concatenate([first, second]), np.concatenate([second, first])
        eligible = small[first] & ((area[second] > area[first]) | ((area[second] == area[first]) & (second < first)))
        first, second = first[eligible], second[eligible]
        far = np.abs(colour[first] - colour[second]).sum(1)
        order = np.lexsort((second, far, first))
        first, second = first[order], second[order]
        nearest = np.flatnonzero(np.diff(first, prepend=-1))
        label = components(first[nearest], second[nearest], count)[label]


def _touching(label: Ints) -> tuple[Ints, Ints]:
    """The pairs of segments on both sides of every edge between pixels."""
    sides = [(label[:, :-1], label[:, 1:]), (label[:-1], label[1:])]
    first = np.concatenate([a[a != b] for a, b in sides])
    second = np.concatenate([b[a != b] for a, b in sides])
    return first, second


def _means(label: Ints, pixels: Floats, area: Ints) -> Floats:
    flat = label.ravel()
    sums = [np.bincount(flat, pixels[..., c].ravel(), minlength=len(area)) for c in range(3)]
    return np.stack(sums, 1) / area[:, None]


def _describe(label: Ints, pixels: Floats) -> Segments:
    high, wide = label.shape
    count = int(label.max()) + 1
    area = np.bincount(label.ravel(), minlength=count)
    rows, columns = np.indices(label.shape)
    boxes = np.empty((count, 4), np.int64)
    boxes[:, :2] = max(high, wide)
    boxes[:, 2:] = 0
    flat = label.ravel()
    np.minimum.at(boxes[:, 0], flat, columns.ravel())
    np.minimum.at(boxes[:, 1], flat, rows.ravel())
    np.maximum.at(boxes[:, 2], flat, columns.ravel() + 1)
    np.maximum.at(boxes[:, 3], flat, rows.ravel() + 1)
    first, second = _touching(label)
    border = np.bincount(first * count + second, minlength=count * count).reshape(count, count).astype(float)
    spans = boxes[:, 2] - boxes[:, 0] > 0.72 * wide  # something in front may hide one end of it
    return Segments(label, boxes, area.astype(float), _means(label, pixels, area), border + border.T, spans)


def mergers(segments: Segments, fill: float, size: float, colour: float, upright: float) -> Bools:
    """(M, S), which segments are in each merger: the two neighbours that belong together most, again and again.

    How much two belong together: a weighted sum of how little empty space the box around both has, how small both
    are, how alike their colours, and how nearly one is above the other. The ground stays out of it.
    """
    count, total = len(segments.area), segments.of.size
    boxes, area, mean = segments.boxes.copy(), segments.area.copy(), segments.colour.copy()
    touch, holds = segments.border > 0, np.eye(count, dtype=bool)
    touch[segments.ground], touch[:, segments.ground] = False, False
    like = np.full((count, count), -np.inf)

    def together(i: Ints | int, j: Ints) -> Floats:
        low, high = np.minimum(boxes[i, :2], boxes[j, :2]), np.maximum(boxes[i, 2:], boxes[j, 2:])
        sides, both = high - low, area[i] + area[j]
        apart = np.abs(mean[i] - mean[j]).sum(1) / 765
        aside = np.abs(boxes[i, ::2].sum(-1) - boxes[j, ::2].sum(-1)) / (2 * segments.of.shape[1])
        space = fill * (sides[:, 0] * sides[:, 1] - both) + size * both
        alike: Floats = -space / total - colour * apart - upright * aside
        return alike

    first, second = touch.nonzero()
    like[first, second] = together(first, second)
    made: list[Bools] = []
    while True:
        i, j = divmod(int(like.argmax()), count)
        if like[i, j] == -np.inf:
            return np.array(made, bool).reshape(-1, count)
        mean[i] = (mean[i] * area[i] + mean[j] * area[j]) / (area[i] + area[j])
        boxes[i, :2], boxes[i, 2:] = np.minimum(boxes[i, :2], boxes[j, :2]), np.maximum(boxes[i, 2:], boxes[j, 2:])
        area[i] += area[j]
        holds[i] |= holds[j]
        touch[i] |= touch[j]
        touch[:, i] = touch[i]
        touch[j], touch[:, j], touch[i, i] = False, False, False
        like[j], like[:, j] = -np.inf, -np.inf
        near = touch[i].nonzero()[0]
        like[i, near] = like[near, i] = together(i, near)
        made.append(holds[i].copy())


def boxes_of(segments: Segments, holds: Bools) -> Ints:
    """(M, S) -> (M, 4), the box around the segments of each."""
    low = np.where(holds[..., None], segments.boxes[:, :2], segments.of.size).min(1)
    high = np.where(holds[..., None], segments.boxes[:, 2:], 0).max(1)
    return np.concatenate([low, high], 1)


def standing_out(segments: Segments, holds: Bools, enough: float = 50.0) -> Floats:
    """(M,), how well each is set off from what it touches, and by how much of the ground, the larger the better.

    With b the border and d = min(1, colour difference / enough) of a segment inside and one outside:
    Σ b d / Σ b + 0.15 Σ_ground b / Σ b + 0.15 log(area / 20).
    """
    inside = holds.astype(float)
    apart = np.minimum(1, np.abs(segments.colour[:, None] - segments.colour).max(-1) / enough)
    outline = (inside @ segments.border) * ~holds
    around = np.maximum(1, outline.sum(1))
    set_off = ((inside @ (segments.border * apart)) * ~holds).sum(1) / around
    free = outline[:, segments.ground].sum(1) / around
    score: Floats = set_off + 0.15 * free + 0.15 * np.log(inside @ segments.area / 20)
    return score
