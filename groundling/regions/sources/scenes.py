"""Regions of drawn scenes: no learned weights, numpy and Pillow alone, some milliseconds per image.

Neighbouring pixels of nearly one colour are segments; neighbouring segments are merged again and again, by several
measures of belonging together. Every segment and every merger is a proposal: parts, wholes, and wholes together with
what they touch. This is selective search on pictures of flat colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from groundling.errors import GroundlingError
from groundling.regions.sources._segments import Bools, Ints, Segments, boxes_of, mergers, segment, standing_out
from groundling.tensors import Regions
from groundling.types import Fingerprint

Floats = NDArray[np.float64]

VERSION = "1"
FEWEST, MOST = 20, 40
STEP = 9.0  # neighbouring pixels that differ by more belong to different segments
SAME = 0.6  # IoU above which two proposals are one
WIDEST = 160  # segments are found on a copy that is no wider
MEASURES = ((1.0, 1.0, 0.0), (1.0, 0.3, 1.0), (0.2, 1.0, 0.2))  # weights of fill, size, colour in `mergers`
THUMB, HISTOGRAM, CELLS, ANGLES = 6, 19, 3, 8
DIM = THUMB * THUMB * 4 + HISTOGRAM + CELLS * CELLS * ANGLES + 8 + 12


def make(count: int = 36) -> SceneRegions:
    """`count` is the largest number of regions of an image, from 20 to 40."""
    if not FEWEST <= count <= MOST:
        raise GroundlingError(f"the scenes source gives {FEWEST} to {MOST} regions, not {count}")
    return SceneRegions(count, Fingerprint("scenes", VERSION, DIM, {"count": count}))


@dataclass(frozen=True)
class SceneRegions:
    """A region source: an RGB image in, regions out; the first region is the whole image."""

    count: int
    fingerprint: Fingerprint

    def __call__(self, image: Image.Image) -> Regions:
        image = image.convert("RGB")
        small = image.reduce(max(1, -(-image.width // WIDEST)))
        found = segment(np.asarray(small, np.float64), STEP)
        boxes, holds = propose(found, self.count)
        feats = describe(image, small, found, boxes, holds)
        scale = np.array([image.width / small.width, image.height / small.height] * 2)
        return Regions.of(
            torch.from_numpy(feats.astype(np.float32)), torch.from_numpy(boxes * scale), (image.width, image.height)
        )


# ---------------------------------------------------------------- where


def propose(found: Segments, count: int) -> tuple[Floats, Bools]:
    """Boxes (R, 4) in pixels of the map of segments, and which segments each is about (R, S).

    First the whole picture and the grounds, then whatever stands out most and is not there yet. Where that is too
    little, parts of these: the upper and the lower half of each.
    """
    high, wide = found.of.shape
    every = np.ones((1, len(found.area)), bool)
    single = np.eye(len(found.area), dtype=bool)
    grounds = single[np.flatnonzero(found.ground)[np.argsort(-found.area[found.ground], kind="stable")][:4]]
    things = np.concatenate([single[~found.ground], *(mergers(found, *weights) for weights in MEASURES)])
    things = things[np.argsort(-standing_out(found, things), kind="stable")]
    holds = np.concatenate([every, grounds, things])
    boxes = boxes_of(found, holds).astype(np.float64)
    boxes[0] = 0, 0, wide, high
    kept = _distinct(boxes, count)
    boxes, holds = boxes[kept], holds[kept]
    while len(boxes) < FEWEST:
        boxes, holds = np.concatenate([boxes, _halves(boxes)])[:FEWEST], np.tile(holds, (3, 1))[:FEWEST]
    return boxes, holds


def _distinct(boxes: Floats, count: int) -> Ints:
    """The first `count` of those that are not the same as an earlier one."""
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    kept: list[int] = []
    for i, box in enumerate(boxes):
        earlier = boxes[kept]
        shared = (np.minimum(box[2:], earlier[:, 2:]) - np.maximum(box[:2], earlier[:, :2])).clip(0).prod(1)
        if not (shared > SAME * (area[i] + area[kept] - shared)).any():
            kept.append(i)
        if len(kept) == count:
            break
    return np.array(kept)


def _halves(boxes: Floats) -> Floats:
    """(R, 4) -> (2 R, 4), all upper halves, then all lower ones."""
    upper, lower = boxes.copy(), boxes.copy()
    upper[:, 3] = lower[:, 1] = (boxes[:, 1] + boxes[:, 3]) / 2
    return np.concatenate([upper, lower])


# ---------------------------------------------------------------- what


def describe(image: Image.Image, small: Image.Image, found: Segments, boxes: Floats, holds: Bools) -> Floats:
    """(R, D): what the box looks like, what of it belongs to the region, its colours, edges, place, surroundings."""
    high, wide = found.of.shape
    grow = image.width / small.width
    masks = (holds[:, found.of] * np.uint8(255)).astype(np.uint8)
    pixels = np.stack([_thumb(image, box * grow, THUMB) for box in boxes])
    belongs = np.stack([_thumb(Image.fromarray(m), box, THUMB) for m, box in zip(masks, boxes, strict=True)])
    around = np.stack([_thumb(small, _wider(box, wide, high), 2) for box in boxes])
    left, top, right, bottom = (boxes / [wide, high, wide, high]).T
    across, down = right - left, bottom - top
    place = np.stack(
        [left, top, right, bottom, across, down, np.sqrt(across * down), np.tanh(np.log(across / down))], 1
    )
    return np.concatenate(
        [2 * pixels, belongs, 3 * _colours(small, found, holds), 3 * _edges(small, boxes), 2 * place - 1, around], 1
    )


def _thumb(image: Image.Image, box: Floats, side: int) -> Floats:
    """The box as side * side pixels, flat, from -0.5 to 0.5."""
    left, top, right, bottom = (float(x) for x in box)
    patch = image.resize((side, side), Image.Resampling.BOX, (left, top, max(right, left + 1), max(bottom, top + 1)))
    return np.asarray(patch, np.float64).reshape(-1) / 255 - 0.5


def _wider(box: Floats, wide: int, high: int) -> Floats:
    """A box of twice the width and height, cut off at the edges of the picture."""
    half = (box[2:] - box[:2]) / 2
    low, top = np.maximum(0, box[:2] - half), np.minimum([wide, high], box[2:] + half)
    return np.concatenate([low, top])


def _colours(image: Image.Image, found: Segments, holds: Bools) -> Floats:
    """(R, 19), share of each colour in the pixels that belong: black, gray, white, 8 hues dark and bright."""
    hue, vivid, light = np.moveaxis(np.asarray(image.convert("HSV"), np.int64), -1, 0)
    name = np.where(vivid < 50, 16 + np.digitize(light, (80, 200)), hue * 8 // 256 + 8 * (light > 150))
    count = len(found.area)
    each = np.bincount((found.of * HISTOGRAM + name).ravel(), minlength=count * HISTOGRAM).reshape(count, HISTOGRAM)
    total = holds @ each.astype(np.float64)
    shares: Floats = total / total.sum(1, keepdims=True)
    return shares


def _edges(image: Image.Image, boxes: Floats) -> Floats:
    """(R, 72), how much edge of which of 8 directions is in each of 3 by 3 cells of the box; of unit length."""
    gray = np.asarray(image.convert("L"), np.float64)
    dy, dx = np.gradient(gray)
    angle = (np.floor(np.arctan2(dy, dx) / np.pi * ANGLES) % ANGLES).astype(np.int64)
    strength = np.zeros((ANGLES, gray.shape[0] + 1, gray.shape[1] + 1))
    np.put_along_axis(strength[:, 1:, 1:], angle[None], np.hypot(dx, dy)[None], 0)
    total = strength.cumsum(1).cumsum(2)
    steps = np.linspace(0, 1, CELLS + 1)
    x = np.rint(boxes[:, :1] + (boxes[:, 2:3] - boxes[:, :1]) * steps).astype(np.int64)  # (R, 4)
    y = np.rint(boxes[:, 1:2] + (boxes[:, 3:] - boxes[:, 1:2]) * steps).astype(np.int64)
    corners = total[:, y[:, :, None], x[:, None, :]]  # (8, R, 4, 4)
    cells = np.diff(np.diff(corners, axis=2), axis=3)  # (8, R, 3, 3)
    flat = np.moveaxis(cells, 0, 1).reshape(len(boxes), -1)
    unit: Floats = flat / np.maximum(1e-6, np.linalg.norm(flat, axis=1, keepdims=True))
    return unit
