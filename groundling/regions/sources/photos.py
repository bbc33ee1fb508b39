"""The default source for photographs: boxes of a detector and selective search, features learned from captions.

Works from package registries alone, on a CPU. Boxes come from SSD-MobileNetV3, from selective search on a small copy of
the photo, from groups of persons and parts of persons. A region's feature is, side by side: the mean over its box of
the map of EfficientNet-Lite2, fine-tuned on the words of captions (384 principal components); of the two maps that the
detector's first predictions look at (128); the detector's class probabilities (90); its place (left, top, right,
bottom, area; all relative). The image vector is that of the whole image, with the greatest class probabilities, and
log(−log(1 − p)) of each word. The feature map is the network's, 7 x 7 cells. The labels of a region are the detector's
likeliest classes, then the words whose heat maps it covers best ("word:shirt").

The networks run by onnxruntime (`_photos_onnx`). OpenCV 4 and 5 differ in the last digits of selective search, and
machines in those of networks, which exchanges about one region in a hundred for a neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.errors import GroundlingError
from groundling.regions.fingerprints import WORD
from groundling.regions.sources._photos_files import FILES, VERSION, read_word_file
from groundling.regions.sources._photos_onnx import PhotosOnnx, Seen
from groundling.regions.sources._pooling import POSITION
from groundling.regions.sources._proposals import CLASSES, class_names
from groundling.tensors import Regions
from groundling.types import Fingerprint

FEWEST, MOST = 36, 100


def make(regions: int = 50) -> Photos:
    """The source; at most `regions` boxes per image, 36 to 100, of which fewer are always the first of more."""
    return Photos(checked_count(regions))


def checked_count(regions: int) -> int:
    """How many regions may be asked for; GroundlingError otherwise."""
    if not isinstance(regions, int) or not FEWEST <= regions <= MOST:
        raise GroundlingError(f"regions must be {FEWEST} to {MOST}, got {regions!r}")
    return regions


def fingerprint(name: str, version: str, regions: int) -> Fingerprint:
    """Of a source whose regions have features of these networks."""
    file = read_word_file()
    return Fingerprint(
        name=name,
        version=version,
        dim=file.state["seen.matrix"].shape[1] + file.state["detected.matrix"].shape[1] + CLASSES + POSITION,
        parameters={"regions": regions},
        weights={file.name: file.sha256 for file in FILES},
        labels=(*class_names(), *(f"{WORD}{word}" for word in file.words)),
    )


class Photos:
    """An RGB image in, its Regions out; region 0 is the whole image."""

    def __init__(self, regions: int) -> None:
        self._look = PhotosOnnx(regions)
        self.fingerprint = fingerprint("photos", VERSION, regions)

    def add_classes(self) -> None:
        """Regions have probabilities of nouns by image classes from now on. Stores have none."""
        self._look.add_classes()

    def __call__(self, image: Any) -> Regions:
        return regions_of(self._look.complete(image))

    def at(self, image: Any, boxes: NDArray[np.float32]) -> Regions:
        """The whole image, then these boxes (xyxy in pixels of it), seen as those that the source chooses itself."""
        return regions_of(self._look.at(image, boxes))


def regions_of(seen: Seen) -> Regions:
    names = ("labels", "scores", "whole", "grid", "classes")
    more = {name: torch.from_numpy(x) for name in names if (x := getattr(seen, name)) is not None}
    return Regions.of(torch.from_numpy(seen.feats), torch.from_numpy(seen.boxes), seen.size, **more)
