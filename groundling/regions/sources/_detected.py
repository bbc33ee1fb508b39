"""Regions from any detector: its boxes, best first, described by the backbone that the photos have.

A source of this kind is a function `detect(image) -> (boxes, scores)`: (N, 4) xyxy in units of the image, 0 to 1, and
(N, C) probabilities. A region's feature is the mean of the backbone's map (1280), the class probabilities (C), and its
place (5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.boxes import nms
from groundling.errors import DataError, GroundlingError
from groundling.regions.sources._features import LITE2, box_means, load_backbone, pixels
from groundling.regions.sources._pooling import LEAST_SCORE, POSITION, detector_scores, likeliest, positions
from groundling.tensors import Regions
from groundling.types import Fingerprint

Floats = NDArray[np.float32]
Detect = Callable[[Any], tuple[Floats, Floats]]

VERSION = "1"
LONG_SIDE = 512  # pixels of the image that the backbone sees
OVERLAP = 0.65  # two boxes with more IoU are one region
CANDIDATES = 1000  # boxes that enter suppression
LABELS = 5  # likeliest classes kept per region


class Detected:
    """An RGB image in, its Regions out: the whole image, then the detector's boxes, at most `regions` together."""

    def __init__(
        self,
        detect: Detect,
        name: str,
        regions: int,
        labels: tuple[str, ...],
        parameters: Mapping[str, Any],
        weights: Mapping[str, str],
    ) -> None:
        if not isinstance(regions, int) or regions < 1:
            raise GroundlingError(f"regions must be at least 1, got {regions!r}")
        self._detect, self._regions = detect, regions
        self._backbone = load_backbone()
        self.fingerprint = Fingerprint(
            name=name,
            version=VERSION,
            dim=self._backbone.dim + len(labels) + POSITION,
            parameters={"regions": regions, **parameters},
            weights={**weights, LITE2.name: LITE2.sha256},
            labels=labels,
        )

    def __call__(self, image: Any) -> Regions:
        picture, size = image.convert("RGB"), image.size
        detected, probabilities = sound(*self._detect(picture))
        boxes = distinct(detected, probabilities, self._regions)
        scores = detector_scores(boxes, detected, probabilities)
        with torch.inference_mode():
            grid = self._backbone(pixels(picture, LONG_SIDE))[0].numpy()
        feats = np.concatenate([box_means(grid, boxes), scores, positions(boxes)], axis=1)
        labels, likely = likeliest(scores, LABELS)
        return Regions.of(
            torch.from_numpy(feats),
            torch.from_numpy(boxes * np.array([*size, *size], np.float32)),
            size,
            labels=torch.from_numpy(labels),
            scores=torch.from_numpy(likely),
            whole=torch.from_numpy(feats[0]),
        )


def spread(labels: NDArray[np.int64], scores: Floats, classes: int) -> Floats:
    """One class and its probability for each box, (N,), (N,) -> (N, C), zero elsewhere."""
    each = np.zeros((len(labels), classes), np.float32)
    each[np.arange(len(labels)), labels] = scores
    return each


def file_sha256(path: Path) -> str:
    """Of a file of any size, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_names(path: Path) -> tuple[str, ...]:
    """Class names from a text file, one per line."""
    try:
        return tuple(line.strip() for line in path.read_text("utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read class names ({error}); one per line, UTF-8") from error


def sound(boxes: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """Boxes inside the image, without those that are no numbers, have no area, or are not believed by the detector."""
    with np.errstate(invalid="ignore"):
        inside = boxes.clip(0, 1)
        keep = ((inside[:, 2:] - inside[:, :2]).min(1, initial=1) > 0) & (scores.max(1, initial=0) >= LEAST_SCORE)
    keep &= np.isfinite(boxes).all(1)
    return inside[keep], scores[keep]


def distinct(boxes: Floats, scores: Floats, count: int) -> Floats:
    """The whole image and the best boxes, no two of them nearly the same: (R, 4), R ≤ count."""
    first = np.argsort(-scores.max(1, initial=0), kind="stable")[:CANDIDATES]
    order = torch.from_numpy(np.concatenate([np.array([[0, 0, 1, 1]], np.float32), boxes[first]]))
    kept = nms(order, torch.arange(len(order), 0, -1), OVERLAP)
    return order[kept[:count]].numpy()
