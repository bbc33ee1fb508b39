"""Where to look: boxes of a detector, of selective search, of persons together and of persons' parts, best first.

A detector finds what it has names for. Selective search (segments of similar colour and texture, merged step by step)
finds sky, grass, walls and shirts. Captions also speak of groups ("two men") and of parts ("a red hat"). No box here
was learned from phrases. Boxes are xyxy in units of the image, 0 to 1. A anchors · C classes · S searched.
"""

from __future__ import annotations

from itertools import combinations, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.regions.sources._ssd import Detections, opencv

Floats = NDArray[np.float32]

SEARCH_SIDE = 320  # pixels; at 400 the search took twice as long and found less
SMALLEST = 0.01  # of the image's width and height; smaller boxes are noise
OVERLAP = 0.65  # two boxes with more IoU are one
PERSON = 0  # class of the detector
SURE = 0.3  # probability from which a person's group and parts are worth a box
CANDIDATES = 700  # anchors that enter suppression
RANKED = 110  # and that leave it: more than can be asked for

PARTS = ((0.25, 0.0, 0.75, 0.25), (0.1, 0.15, 0.9, 0.55), (0.1, 0.5, 0.9, 1.0), (0.0, 0.0, 1.0, 0.5))
# of a person's box: head; torso; legs; upper half


def propose(found: Detections, searched: Floats, count: int) -> Floats:
    """At most `count` distinct boxes (R, 4), the whole image first. Fewer are always the first of more."""
    large = (found.boxes[:, 2:] - found.boxes[:, :2]).min(1) > SMALLEST
    boxes, scores = found.boxes[large], found.scores[large]
    ranked = _ranked(boxes, scores)
    persons = boxes[[i for i in _best(boxes, scores[:, PERSON]) if scores[i, PERSON] > SURE]]
    whole = np.array([[0, 0, 1, 1]], np.float32)
    order = np.concatenate(
        [
            *(whole, ranked[:20], searched[:16], groups(persons), parts(persons)),
            *(ranked[20:46], searched[16:41], ranked[46:], searched[41:]),
        ]
    )
    return order[_suppress(order, np.arange(len(order), 0, -1), OVERLAP)][:count]


def distinct(searched: Floats, count: int) -> Floats:
    """At most `count` distinct boxes (R, 4) of selective search alone, the whole image first."""
    order = np.concatenate([np.array([[0, 0, 1, 1]], np.float32), searched])
    return order[_suppress(order, np.arange(len(order), 0, -1), OVERLAP)][:count]


def search(rgb: NDArray[np.uint8], side: int = SEARCH_SIDE) -> Floats:
    """Boxes of selective search (S, 4), largest first; the image's long side is brought to `side` pixels."""
    cv2 = opencv()
    height, width = rgb.shape[:2]
    scale = side / max(width, height)
    small = [max(16, round(length * scale)) for length in (width, height)]
    machine = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    machine.setBaseImage(cv2.resize(rgb[:, :, ::-1], small, interpolation=cv2.INTER_AREA))
    machine.switchToSingleStrategy()
    found = np.unique(np.asarray(machine.process()).reshape(-1, 4), axis=0)  # sorted: they come in random order
    boxes = np.concatenate([found[:, :2], found[:, :2] + found[:, 2:]], 1) / np.array([small * 2])
    large: Floats = boxes[(boxes[:, 2:] - boxes[:, :2]).min(1) > SMALLEST].astype(np.float32)
    return large[_suppress(large, (large[:, 2:] - large[:, :2]).prod(1), 0.7)]


def groups(persons: Floats) -> Floats:
    """The box around all persons (P, 4), then around every two of the first four."""
    if len(persons) < 2:
        return np.zeros((0, 4), np.float32)
    return np.stack([_around(persons), *(_around(np.stack(pair)) for pair in combinations(persons[:4], 2))])


def parts(persons: Floats) -> Floats:
    """The PARTS of the first two persons."""
    first = persons[:2, None]
    place = np.array(PARTS, np.float32)[None]  # (1, 4, 4)
    size = np.tile(first[..., 2:] - first[..., :2], 2)
    corner = np.tile(first[..., :2], 2)
    return (corner + place * size).reshape(-1, 4)


def _ranked(boxes: Floats, scores: Floats) -> Floats:
    """Anchors by their likeliest class, and by surprise, in turn.

    The first order is full of the classes that the detector is good at. Surprise is Σ_c p_c / mean(p_c), the mean taken
    over all anchors of this image: a little evidence for a class that is nowhere else counts more.
    """
    if not len(boxes):
        return boxes
    sure = boxes[_best(boxes, scores.max(1))]
    odd = boxes[_best(boxes, (scores / (scores.mean(0) + 1e-3)).sum(1))]
    pairs = zip_longest(sure, odd)
    return np.array([box for pair in pairs for box in pair if box is not None], np.float32).reshape(-1, 4)


def _best(boxes: Floats, scores: Floats) -> list[int]:
    """Indices of the RANKED best, at most half overlapping."""
    first = np.argsort(-scores, kind="stable")[:CANDIDATES]
    return [int(first[i]) for i in _suppress(boxes[first], scores[first], 0.5)[:RANKED]]


def _suppress(boxes: Floats, scores: NDArray[Any], threshold: float) -> list[int]:
    """As `boxes.nms`, in a tenth of the time."""
    corner_and_size = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    kept = opencv().dnn.NMSBoxes(corner_and_size.tolist(), scores.tolist(), 0.0, threshold)
    return [int(i) for i in kept]


def _around(boxes: Floats) -> Floats:
    return np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])
