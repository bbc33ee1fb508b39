"""Photographs without a detector: selective search says where, a network taught by captions what.

For phrase grounding whose detector is a teacher and is not run at test time (Wang et al., CVPR 2021): boxes and
features are those that `photos` has without SSD-MobileNetV3. A region's feature is the mean over its box of the map of
EfficientNet-Lite2 (384 principal components) and its place (5); the image vector is that of the whole image with
log(−log(1 − p)) of each word; the feature map has 7 x 7 cells. With `detector="teacher"` regions have the detector's
likeliest classes as labels, which `two_branch` learns from and no model takes as input; with "none" it is not even
loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from groundling.errors import GroundlingError
from groundling.regions.fingerprints import DETECTOR, NONE, TEACHER
from groundling.regions.sources._features import absence, box_means, load_word_backbone, pixels
from groundling.regions.sources._photos_files import MAP_SIDE, SEARCH_SIDE, WORD_BACKBONE, WORKING_SIDE
from groundling.regions.sources._pooling import LABELS, POSITION, detector_scores, fit, likeliest, positions
from groundling.regions.sources._proposals import Detector, distinct, search
from groundling.regions.sources.photos import checked_count
from groundling.tensors import Regions
from groundling.types import WORD_DEVIATION, WORD_MEAN, Fingerprint

VERSION = "1"


def make(regions: int = 50, detector: str = TEACHER) -> PhotosSearched:
    """The source; at most `regions` boxes per image, 36 to 100. `detector`: teacher, which labels regions; or none."""
    if detector not in (TEACHER, NONE):
        raise GroundlingError(f"detector is {TEACHER} or {NONE}, not {detector!r}")
    return PhotosSearched(checked_count(regions), detector)


class PhotosSearched:
    """An RGB image in, its Regions out; region 0 is the whole image."""

    def __init__(self, regions: int, detector: str) -> None:
        self._regions = regions
        self._words = load_word_backbone()
        self._teacher = Detector() if detector == TEACHER else None
        self.fingerprint = Fingerprint(
            name="photos_searched",
            version=VERSION,
            dim=self._words.seen.matrix.shape[1] + POSITION,
            parameters={"regions": regions, DETECTOR: detector},
            weights={WORD_BACKBONE.name: WORD_BACKBONE.sha256},
            labels=self._teacher.labels if self._teacher else (),
        )

    def __call__(self, image: Any) -> Regions:
        size = image.size
        picture = fit(image.convert("RGB"))
        rgb = np.asarray(picture)
        boxes = distinct(search(rgb, SEARCH_SIDE), self._regions)
        with torch.inference_mode():
            grid = self._words.network(pixels(picture, WORKING_SIDE))[0]
            seen = self._words.seen(box_means(grid.numpy(), boxes))
            absent = absence(self._words.cells(grid)).clamp(min=1e-6).log().numpy()
            coarse = F.adaptive_avg_pool2d(grid[None], MAP_SIDE)[0].flatten(1).T
            more: dict[str, NDArray[Any]] = {
                "whole": np.concatenate([seen[0], (absent - WORD_MEAN) / WORD_DEVIATION]).astype(np.float32),
                "grid": self._words.seen(coarse.numpy()),
            }
        if self._teacher:
            detections = self._teacher(rgb)
            more["labels"], more["scores"] = likeliest(
                detector_scores(boxes, detections.boxes, detections.scores), LABELS
            )
        return Regions.of(
            torch.from_numpy(np.concatenate([seen, positions(boxes)], axis=1)),
            torch.from_numpy(boxes * np.array([*size, *size], np.float32)),
            size,
            **{name: torch.from_numpy(array) for name, array in more.items()},
        )
