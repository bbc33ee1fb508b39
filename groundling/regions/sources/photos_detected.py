"""Photographs seen by the detector of `photos` alone: its boxes, surest first; no region is added for the whole image.

For captioners that learn where to look from captions alone. The regions of the papers are a detector's, and the image
as a whole is a vector beside them. Among the regions of `photos` are the whole image and large segments, which show all
things at once: attention that nobody teaches stays there. Features, image vector, feature map and labels are those of
`photos`; the vector is still that of the whole image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groundling.regions.sources._photos_onnx import PhotosOnnx
from groundling.regions.sources.photos import checked_count, fingerprint, regions_of
from groundling.tensors import Regions

VERSION = "1"


def make(regions: int = 36) -> PhotosDetected:
    """The source; at most `regions` boxes per image, 36 to 100, of which fewer are always the first of more."""
    return PhotosDetected(checked_count(regions))


class PhotosDetected:
    """An RGB image in, its Regions out."""

    def __init__(self, regions: int) -> None:
        self._look = PhotosOnnx(regions + 1, searched=False)  # the first is the whole image
        self.fingerprint = fingerprint("photos_detected", VERSION, regions)

    def __call__(self, image: Any) -> Regions:
        seen = self._look.complete(image)
        if len(seen.boxes) == 1:  # the detector found no box at all
            return regions_of(seen)
        names = ("feats", "boxes", "frame", "labels", "scores")
        return regions_of(replace(seen, **{name: getattr(seen, name)[1:] for name in names}))
