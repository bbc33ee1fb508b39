"""Version 1 of the source `photos`, for models that were trained with it.

SSD-MobileNetV3 and selective search propose boxes, EfficientNet-Lite2 gives their features.

Works from package registries alone, on a CPU. A region's feature is, side by side: the mean over its box of
EfficientNet-Lite2's last map (1280), of the two maps that the detector's first predictions look at (672 and 480),
the detector's class probabilities (90), and its place (left, top, right, bottom, area; all relative).

OpenCV 4 and 5 differ in the last digits, which exchanges about one region in a hundred for a neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.regions.sources._features import LITE2, box_means, load_backbone, pixels
from groundling.regions.sources._pooling import LONG_SIDE, POSITION, detector_scores, fit, likeliest, positions
from groundling.regions.sources._proposals import CLASSES, CONFIG, GRAPH, MAP_DIMS, NAMES, Detector, propose, search
from groundling.regions.sources.photos import checked_count
from groundling.tensors import Regions
from groundling.types import Fingerprint

Floats = NDArray[np.float32]

VERSION = "1"
LABELS = 5  # likeliest classes kept per region

FILES = (GRAPH, CONFIG, NAMES, LITE2)
DIM = 1280 + sum(MAP_DIMS) + CLASSES + POSITION


def make(regions: int = 50) -> Photos:
    """The source; at most `regions` boxes per image, 36 to 100, of which fewer are always the first of more."""
    return Photos(checked_count(regions))


class Photos:
    """An RGB image in, its Regions out; region 0 is the whole image."""

    def __init__(self, regions: int) -> None:
        self._regions = regions
        self._detector = Detector()
        self._backbone = load_backbone()
        self.fingerprint = Fingerprint(
            name="photos",
            version=VERSION,
            dim=DIM,
            parameters={"regions": regions},
            weights={file.name: file.sha256 for file in FILES},
            labels=self._detector.labels,
        )

    def __call__(self, image: Any) -> Regions:
        size = image.size
        picture = fit(image.convert("RGB"))
        rgb = np.asarray(picture)
        detections = self._detector(rgb)
        boxes = propose(detections, search(rgb), self._regions)
        with torch.inference_mode():
            grid = self._backbone(pixels(picture, LONG_SIDE))[0].numpy()
        pooled = [box_means(x, boxes) for x in (grid, *detections.maps)]
        scores = detector_scores(boxes, detections.boxes, detections.scores)
        feats = np.concatenate([*pooled, scores, positions(boxes)], axis=1)
        whole = feats[0].copy()
        whole[-POSITION - CLASSES : -POSITION] = detections.scores.max(0)  # of the image: what is anywhere in it
        labels, likely = likeliest(scores, LABELS)
        return Regions.of(
            torch.from_numpy(feats),
            torch.from_numpy(boxes * np.array([*size, *size], np.float32)),
            size,
            labels=torch.from_numpy(labels),
            scores=torch.from_numpy(likely),
            whole=torch.from_numpy(whole),
        )
