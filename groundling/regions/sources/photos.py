"""The default source for photographs: boxes of a detector and selective search, features learned from captions.

Works from package registries alone, on a CPU. Boxes come from SSD-MobileNetV3, from selective search on a small copy of
the photo, from groups of persons and parts of persons. A region's feature is, side by side: the mean over its box of
the map of EfficientNet-Lite2, fine-tuned on the words of captions (384 principal components); of the two maps that the
detector's first predictions look at (128); the detector's class probabilities (90); its place (left, top, right,
bottom, area; all relative). The image vector is that of the whole image, with the greatest class probabilities, and
log(−log(1 − p)) of each word. The feature map is the network's, 7 x 7 cells. The labels of a region are the detector's
likeliest classes, then the words whose heat maps it covers best ("word:shirt").

OpenCV 4 and 5 differ in the last digits, which exchanges about one region in a hundred for a neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from groundling.errors import GroundlingError
from groundling.regions.fingerprints import WORD
from groundling.regions.sources._features import (
    ClassNetwork,
    absence,
    box_means,
    load_word_backbone,
    pixels,
    soft_iou,
)
from groundling.regions.sources._photos_files import FILES, SEARCH_SIDE, VERSION, WORKING_SIDE
from groundling.regions.sources._pooling import (
    LABELS,
    LIKELY,
    POSITION,
    WORDS,
    cell_shares,
    detector_scores,
    fit,
    likeliest,
    positions,
)
from groundling.regions.sources._proposals import CLASSES, Detections, Detector, propose, search
from groundling.tensors import Regions
from groundling.types import WORD_DEVIATION, WORD_MEAN, Fingerprint

Floats = NDArray[np.float32]

FEWEST, MOST = 36, 100
MAP_SIDE = 7  # cells of the feature map along each side


def make(regions: int = 50) -> Photos:
    """The source; at most `regions` boxes per image, 36 to 100, of which fewer are always the first of more."""
    return Photos(checked_count(regions))


def checked_count(regions: int) -> int:
    """How many regions may be asked for; GroundlingError otherwise."""
    if not isinstance(regions, int) or not FEWEST <= regions <= MOST:
        raise GroundlingError(f"regions must be {FEWEST} to {MOST}, got {regions!r}")
    return regions


class Photos:
    """An RGB image in, its Regions out; region 0 is the whole image."""

    def __init__(self, regions: int) -> None:
        self._regions = regions
        self._detector = Detector()
        self._words = load_word_backbone()
        self._classes: ClassNetwork | None = None
        classes = self._detector.labels
        self.fingerprint = Fingerprint(
            name="photos",
            version=VERSION,
            dim=self._words.seen.matrix.shape[1] + self._words.detected.matrix.shape[1] + CLASSES + POSITION,
            parameters={"regions": regions},
            weights={file.name: file.sha256 for file in FILES},
            labels=(*classes, *(f"{WORD}{word}" for word in self._words.words)),
        )

    def add_classes(self) -> None:
        """Regions have probabilities of nouns by image classes from now on. Stores have none."""
        self._classes = self._classes or ClassNetwork()

    def __call__(self, image: Any) -> Regions:
        picture = fit(image.convert("RGB"))
        rgb = np.asarray(picture)
        detections = self._detector(rgb)
        boxes = propose(detections, search(rgb, SEARCH_SIDE), self._regions)
        return self._seen(picture, detections, boxes, image.size)

    def at(self, image: Any, boxes: Floats) -> Regions:
        """The whole image, then these boxes (xyxy in pixels of it), seen as those that the source chooses itself."""
        picture = fit(image.convert("RGB"))
        relative = (np.asarray(boxes, np.float32) / np.array([*image.size, *image.size], np.float32)).clip(0, 1)
        wanted = np.concatenate([np.array([[0, 0, 1, 1]], np.float32), relative])
        return self._seen(picture, self._detector(np.asarray(picture)), wanted, image.size)

    def _seen(self, picture: Image.Image, detections: Detections, boxes: Floats, size: tuple[int, int]) -> Regions:
        """The regions at boxes (R, 4; 0 to 1), the first of them the whole image, which is of `size`."""
        with torch.inference_mode():
            early = self._words.network.early(pixels(picture, WORKING_SIDE))
            grid = self._words.network.late(early)[0]
            named = {} if self._classes is None else {"classes": self._classes(early, boxes)}
            cells = self._words.cells(grid)
            feats, scores = self._features(grid.numpy(), detections, boxes)
            whole = self._whole(feats[0], detections, cells)
            labels, likely = self._labels(grid, cells, boxes, scores)
            coarse = F.adaptive_avg_pool2d(grid[None], MAP_SIDE)[0].flatten(1).T
            cells_seen = self._words.seen(coarse.numpy())
        return Regions.of(
            torch.from_numpy(feats),
            torch.from_numpy(boxes * np.array([*size, *size], np.float32)),
            size,
            labels=torch.from_numpy(labels),
            scores=torch.from_numpy(likely),
            whole=torch.from_numpy(whole),
            grid=torch.from_numpy(cells_seen),
            **named,
        )

    def _features(self, grid: Floats, detections: Detections, boxes: Floats) -> tuple[Floats, Floats]:
        """(R, D) features and (R, classes) scores of the detector."""
        seen = self._words.seen(box_means(grid, boxes))
        detected = self._words.detected(np.concatenate([box_means(x, boxes) for x in detections.maps], axis=1))
        scores = detector_scores(boxes, detections.boxes, detections.scores)
        return np.concatenate([seen, detected, scores, positions(boxes)], axis=1), scores

    def _whole(self, first: Floats, detections: Detections, cells: Tensor) -> Floats:
        """The image vector: what the whole image looks like, what the detector finds anywhere in it, its words."""
        words = (absence(cells).clamp(min=1e-6).log() - WORD_MEAN).numpy() / WORD_DEVIATION
        seen = first[: self._words.seen.matrix.shape[1]]
        return np.concatenate([seen, detections.scores.max(0), words]).astype(np.float32)

    def _labels(self, grid: Tensor, cells: Tensor, boxes: Floats, scores: Floats) -> tuple[Any, Floats]:
        """(R, LABELS + WORDS): classes of the detector, then words by p · soft IoU of box and heat map."""
        height, width = grid.shape[1:]
        p = -torch.expm1(-absence(cells))
        chosen = p.topk(64).indices
        heat = cells[:, chosen].sigmoid()
        heat = heat / heat.amax(0).clamp(min=1e-6)
        shares = torch.from_numpy(cell_shares(boxes, height, width))
        fit = p[chosen] * soft_iou(shares, heat)
        fit = fit.masked_fill(p[chosen] < LIKELY, 0.0)
        best, at = fit.topk(WORDS, dim=1)
        classes, likely = likeliest(scores, LABELS)
        words = torch.where(best > 0, chosen[at] + CLASSES, -1)
        return np.concatenate([classes, words.numpy()], 1), np.concatenate([likely, best.numpy()], 1)
