"""Regions of drawn scenes, some milliseconds per image.

Where: neighbouring pixels of nearly one colour are segments; neighbouring segments are merged again and again, by
several measures of belonging together. Every segment and every merger is a proposal: parts, wholes, and wholes together
with what they touch. This is selective search on pictures of flat colours.

What: a region's feature is, side by side, the hidden layer of a small network that was trained on other scenes (128),
its colours (19) and its position (8). The network also gives probabilities of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from groundling.errors import GroundlingError
from groundling.regions.fingerprints import DETECTOR, NONE, TEACHER
from groundling.regions.sources._segments import Bools, Ints, Segments, boxes_of, mergers, segment, standing_out
from groundling.scenes import detector as network
from groundling.tensors import Regions
from groundling.types import Fingerprint

Floats = NDArray[np.float64]

VERSION = "3"
FEWEST, MOST = 20, 100
CELLS_MOST = 14  # of a side of the feature map
STEP = 9.0  # neighbouring pixels that differ by more belong to different segments
SAME = 0.6  # IoU above which two proposals are one, by default
WIDEST = 160  # pixels; segments are computed on a copy that is no wider
MEASURES = ((1.0, 1.0, 0.0, 0.0), (1.0, 0.3, 1.0, 0.0), (0.2, 1.0, 0.2, 1.0))  # weights of `mergers`
THUMB, HISTOGRAM, CELLS, ANGLES, POSITION = 6, 19, 3, 8, 8
DIM = network.HIDDEN + HISTOGRAM + POSITION
DESCRIBED = 255  # numbers that describe a region's pixels
FEATURES = "features"


def make(
    count: int = 36, same: float = SAME, sure: float = 0.0, map: int = 0, detector: str = "features"
) -> SceneRegions:
    """`count` is the largest number of regions of an image, from 20 to 100; `same` the IoU above which two are one.

    With count 100 and same 0.9 things are covered by as many proposals as a detector gives. `sure` leaves out regions
    whose likeliest name has less probability, most parts and most pairs of things, as a detector does; the whole
    picture stays. `map` is the side of a feature map of so many by so many cells, at most 14, which comes with a vector
    of the whole picture; 0: neither.

    `detector` is what the network of the detector does: it makes "features" and labels; it is only a "teacher" that
    labels regions, whose features are the numbers that describe their pixels; or "none" is run. A model that was taught
    by the second kind of regions works with the third.
    """
    if detector not in (FEATURES, TEACHER, NONE):
        raise GroundlingError(f"detector is {FEATURES}, {TEACHER} or {NONE}, not {detector!r}")
    if sure and detector != FEATURES:
        raise GroundlingError(
            "sure asks the detector which regions are things: leave it out, or the parameter detector"
        )
    if not FEWEST <= count <= MOST:
        raise GroundlingError(f"the scenes source gives {FEWEST} to {MOST} regions, not {count}")
    if not 0 < same < 1:
        raise GroundlingError(f"same is an overlap between 0 and 1, not {same}")
    if not 0 <= sure < 1:
        raise GroundlingError(f"sure is a probability below 1, not {sure}")
    if not 0 <= map <= CELLS_MOST:
        raise GroundlingError(f"map is the side of a feature map, from 0 to {CELLS_MOST}, not {map}")
    parameters = {"count": count} | ({} if same == SAME else {"same": same}) | ({"sure": sure} if sure else {})
    parameters |= {"map": map} if map else {}
    weights = {network.WEIGHTS.name: network.WEIGHTS.sha256}
    made_by = Fingerprint("scenes", VERSION, DIM, parameters, weights, network.LABELS)
    if detector != FEATURES:
        labels = network.LABELS if detector == TEACHER else ()
        made_by = Fingerprint("scenes", VERSION, DESCRIBED, parameters | {DETECTOR: detector}, labels=labels)
    return SceneRegions(count, same, sure, map, made_by, detector)


@dataclass(frozen=True)
class SceneRegions:
    """A region source: an RGB image in, regions out; the first region is the whole image."""

    count: int
    same: float
    sure: float
    map: int  # cells of a side of the feature map; 0: none
    fingerprint: Fingerprint
    detector: str = FEATURES

    def __call__(self, image: Image.Image) -> Regions:
        boxes, described = describe(image.convert("RGB"), self.count, self.same)
        if self.detector != FEATURES:
            return self._described(image, boxes, described)
        feats, classes = features(described)
        labels, scores = network.likeliest_labels(classes)
        kept = scores[:, 0] >= self.sure
        kept[0] = True
        more: dict[str, torch.Tensor] = {}
        if self.map:
            cells = features(describe_cells(image.convert("RGB"), self.map))[0]
            more = {"whole": torch.from_numpy(feats[0]), "grid": torch.from_numpy(cells)}
        return Regions.of(
            torch.from_numpy(feats[kept]),
            torch.from_numpy(boxes[kept]),
            image.size,
            labels=torch.from_numpy(labels[kept]),
            scores=torch.from_numpy(scores[kept]),
            **more,
        )

    def _described(self, image: Image.Image, boxes: Floats, described: Floats) -> Regions:
        """Regions whose features are what describes their pixels, with labels where the detector is a teacher."""
        more: dict[str, torch.Tensor] = {}
        if self.map:
            cells = describe_cells(image.convert("RGB"), self.map).astype(np.float32)
            more = {"whole": torch.from_numpy(described[0].astype(np.float32)), "grid": torch.from_numpy(cells)}
        if self.detector == TEACHER:
            labels, scores = network.likeliest_labels(features(described)[1])
            more |= {"labels": torch.from_numpy(labels), "scores": torch.from_numpy(scores)}
        feats = torch.from_numpy(described.astype(np.float32))
        return Regions.of(feats, torch.from_numpy(boxes), image.size, **more)


def features(described: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What the network makes of regions, with their colours and places, (R, DIM); and their classes."""
    hidden, classes = network.classify(described)
    return np.concatenate([hidden, described[:, -HISTOGRAM - POSITION :].astype(np.float32)], 1), classes


def describe(image: Image.Image, count: int, same: float) -> tuple[Floats, Floats]:
    """Boxes (R, 4) in pixels of an RGB image, and what the network sees of each."""
    small = image.reduce(max(1, -(-image.width // WIDEST)))
    segments = segment(np.asarray(small, np.float64), STEP)
    boxes, holds = propose(segments, count, same)
    return boxes * _scale(image, small), appearance(image, small, segments, boxes, holds)


def describe_cells(image: Image.Image, side: int) -> Floats:
    """What the network sees of each of `side` by `side` cells of an RGB image, row by row, about all that is in it."""
    small = image.reduce(max(1, -(-image.width // WIDEST)))
    segments = segment(np.asarray(small, np.float64), STEP)
    high, wide = segments.of.shape
    x, y = np.linspace(0, wide, side + 1), np.linspace(0, high, side + 1)
    boxes = np.array([[x[j], y[i], x[j + 1], y[i + 1]] for i in range(side) for j in range(side)])
    holds = np.zeros((len(boxes), len(segments.area)), bool)
    for row, box in zip(holds, boxes, strict=True):
        left, top = np.floor(box[:2]).astype(int)
        right, bottom = np.ceil(box[2:]).astype(int)
        row[np.unique(segments.of[top : max(bottom, top + 1), left : max(right, left + 1)])] = True
    return appearance(image, small, segments, boxes, holds)


def _scale(image: Image.Image, small: Image.Image) -> Floats:
    """From pixels of the small copy to pixels of the image; its last row and column may be narrower than the others."""
    return np.array([image.width / small.width, image.height / small.height] * 2)


# ---------------------------------------------------------------- where


def propose(segments: Segments, count: int, same: float) -> tuple[Floats, Bools]:
    """Boxes (R, 4) in pixels of the map of segments, and which segments each is about (R, S).

    First the whole picture and the grounds, then whatever stands out most and is not there yet. Where that is too
    little, parts of these: the upper and the lower half of each.
    """
    high, wide = segments.of.shape
    every = np.ones((1, len(segments.area)), bool)
    single = np.eye(len(segments.area), dtype=bool)
    grounds = single[np.flatnonzero(segments.ground)[np.argsort(-segments.area[segments.ground], kind="stable")][:4]]
    things = np.concatenate([single[~segments.ground], *(mergers(segments, *weights) for weights in MEASURES)])
    things = things[np.argsort(-standing_out(segments, things), kind="stable")][: 5 * count]
    holds = np.concatenate([every, grounds, things])
    boxes = boxes_of(segments, holds).astype(np.float64)
    boxes[0] = 0, 0, wide, high
    kept = _distinct(boxes, count, same)
    boxes, holds = boxes[kept], holds[kept]
    while len(boxes) < FEWEST:
        boxes, holds = np.concatenate([boxes, _halves(boxes)])[:FEWEST], np.tile(holds, (3, 1))[:FEWEST]
    return boxes, holds


def _distinct(boxes: Floats, count: int, same: float) -> Ints:
    """The first `count` of those whose IoU with every earlier one is at most `same`."""
    low, high = np.maximum(boxes[:, None, :2], boxes[:, :2]), np.minimum(boxes[:, None, 2:], boxes[:, 2:])
    sides = (high - low).clip(0)
    shared = sides[..., 0] * sides[..., 1]
    area = shared.diagonal()
    alike = shared > same * (area[:, None] + area - shared)
    alive, kept = np.ones(len(boxes), bool), []
    for i in range(len(boxes)):
        if alive[i]:
            kept.append(i)
            alive &= ~alike[i]
        if len(kept) == count:
            break
    return np.array(kept)


def _halves(boxes: Floats) -> Floats:
    """(R, 4) -> (2 R, 4), all upper halves, then all lower ones."""
    upper, lower = boxes.copy(), boxes.copy()
    upper[:, 3] = lower[:, 1] = (boxes[:, 1] + boxes[:, 3]) / 2
    return np.concatenate([upper, lower])


# ---------------------------------------------------------------- what


def appearance(image: Image.Image, small: Image.Image, segments: Segments, boxes: Floats, holds: Bools) -> Floats:
    """(R, 255): the pixels of the box, what of it belongs to the region, its edges, surroundings, colours, position.

    Each kind of number is brought to about mean 0 and deviation 1, so that none drowns the others in a linear layer.
    """
    pixels = np.stack([_thumb(image, box) for box in boxes * _scale(image, small)])
    return np.concatenate(
        [
            4 * pixels,
            2 * _belongs(segments, boxes, holds),
            6 * np.sqrt(_edges(small, boxes)) - 0.7,
            4 * _around(small, boxes),
            3 * np.sqrt(_colours(small, segments, holds)),
            3 * _position(boxes, segments.of.shape) - 1.5,
        ],
        1,
    )


def _position(boxes: Floats, shape: tuple[int, ...]) -> Floats:
    """(R, POSITION), sides, width, height, size and how wide it is for its height, as shares of the picture."""
    high, wide = shape
    left, top, right, bottom = (boxes / [wide, high, wide, high]).T
    across, down = right - left, bottom - top
    return np.stack([left, top, right, bottom, across, down, np.sqrt(across * down), across / (across + down)], 1)


def _thumb(image: Image.Image, box: Floats) -> Floats:
    """The box as 6 by 6 pixels, flat, from -0.5 to 0.5."""
    left, top = (min(at, side - 1.0) for at, side in zip(box[:2].tolist(), image.size, strict=True))
    right, bottom = (min(at, float(side)) for at, side in zip(box[2:].tolist(), image.size, strict=True))
    patch = image.resize((THUMB, THUMB), Image.Resampling.BOX, (left, top, max(right, left + 1), max(bottom, top + 1)))
    return np.asarray(patch, np.float64).reshape(-1) / 255 - 0.5


def _belongs(segments: Segments, boxes: Floats, holds: Bools) -> Floats:
    """(R, 36), how much of each of 6 by 6 cells belongs to the region, from four points in each; -0.5 to 0.5."""
    steps = (np.arange(2 * THUMB) + 0.5) / (2 * THUMB)
    x = (boxes[:, :1] + (boxes[:, 2:3] - boxes[:, :1]) * steps).astype(np.int64)  # (R, 12)
    y = (boxes[:, 1:2] + (boxes[:, 3:] - boxes[:, 1:2]) * steps).astype(np.int64)
    inside = holds[np.arange(len(boxes))[:, None, None], segments.of[y[:, :, None], x[:, None, :]]]
    share: Floats = inside.reshape(-1, THUMB, 2, THUMB, 2).mean((2, 4)).reshape(len(boxes), -1)
    return share - 0.5


def _around(image: Image.Image, boxes: Floats) -> Floats:
    """(R, 12), mean colours of 2 by 2 cells of a box twice as wide and high; -0.5 to 0.5."""
    half = (boxes[:, 2:] - boxes[:, :2]) / 2
    wider = np.concatenate([boxes[:, :2] - half, boxes[:, 2:] + half], 1).clip(0, [*image.size, *image.size])
    pixels = np.moveaxis(np.asarray(image, np.float64) / 255 - 0.5, -1, 0)
    sums, counts = _cells(pixels, wider, 2), _cells(np.ones((1, *pixels.shape[1:])), wider, 2)
    return (sums / np.maximum(1, counts)).reshape(len(boxes), -1)


def _cells(channels: Floats, boxes: Floats, side: int) -> Floats:
    """(C, H, W), (R, 4) -> (R, C, side, side), sums over the cells of each box, by a table of sums from the corner."""
    table = np.zeros((channels.shape[0], channels.shape[1] + 1, channels.shape[2] + 1))
    np.cumsum(channels.cumsum(1), axis=2, out=table[:, 1:, 1:])
    steps = np.linspace(0, 1, side + 1)
    x = np.rint(boxes[:, :1] + (boxes[:, 2:3] - boxes[:, :1]) * steps).astype(np.int64)  # (R, side + 1)
    y = np.rint(boxes[:, 1:2] + (boxes[:, 3:] - boxes[:, 1:2]) * steps).astype(np.int64)
    corners = table[:, y[:, :, None], x[:, None, :]]
    return np.moveaxis(np.diff(np.diff(corners, axis=2), axis=3), 0, 1)


def _colours(image: Image.Image, segments: Segments, holds: Bools) -> Floats:
    """(R, 19), share of each colour in the pixels that belong: black, gray, white, 8 hues dark and bright."""
    hue, vivid, light = np.moveaxis(np.asarray(image.convert("HSV"), np.int64), -1, 0)
    name = np.where(vivid < 50, 16 + np.digitize(light, (80, 200)), hue * 8 // 256 + 8 * (light > 150))
    count = len(segments.area)
    each = np.bincount((segments.of * HISTOGRAM + name).ravel(), minlength=count * HISTOGRAM).reshape(count, HISTOGRAM)
    total = holds @ each.astype(np.float64)
    shares: Floats = total / total.sum(1, keepdims=True)
    return shares


def _edges(image: Image.Image, boxes: Floats) -> Floats:
    """(R, 72), share of edge of each of 8 directions in each of 3 by 3 cells of the box."""
    gray = np.asarray(image.convert("L"), np.float64)
    dx, dy = np.diff(gray, axis=1, append=gray[:, -1:]), np.diff(gray, axis=0, append=gray[-1:])
    angle = (np.floor(np.arctan2(dy, dx) / np.pi * ANGLES) % ANGLES).astype(np.int64)
    strength = np.zeros((ANGLES, *gray.shape))
    np.put_along_axis(strength, angle[None], np.hypot(dx, dy)[None], 0)
    flat = _cells(strength, boxes, CELLS).reshape(len(boxes), -1).clip(0)  # differences of sums may be just below 0
    share: Floats = flat / np.maximum(1e-6, flat.sum(1, keepdims=True))
    return share
