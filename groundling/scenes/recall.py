"""The recall of a region source: the share of annotated boxes that it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from groundling.boxes import iou
from groundling.images import open_image
from groundling.tensors import RegionSource
from groundling.types import Box, Example
from groundling.video import frames, is_clip


@dataclass(frozen=True)
class Recall:
    found: int
    boxes: int
    images: int
    regions: float  # mean number of an image

    def __str__(self) -> str:
        share, how = self.found / max(1, self.boxes), f"{self.images} images, {self.regions:.1f} regions each"
        return f"recall@0.5 = {share:.4f} (n = {self.boxes} boxes of {how})"


def recall(source: RegionSource, examples: Iterable[Example], threshold: float = 0.5) -> Recall:
    """A box is found when a region has IoU > threshold with it; boxes of several phrases count once. The frames of a
    clip are images like any other."""
    found = boxes = images = regions = 0
    for example in examples:
        pictures = frames(example.media) if is_clip(example.media) else [open_image(example.media)]
        for number, picture in enumerate(pictures):
            made, gold = source(picture), _boxes(example, number)
            images, regions, boxes = images + 1, regions + made.boxes.shape[1], boxes + len(gold)
            if gold:
                best = iou(torch.tensor(gold), made.boxes[0]).amax(1)
                found += int((best > threshold).sum())
    return Recall(found, boxes, images, regions / max(1, images))


def _boxes(example: Example, frame: int) -> list[Box]:
    """The boxes of a frame, those of each entity once."""
    annotated = [
        (p.entity, box, f) for p in example.gold for box, f in zip(p.boxes, p.frames or [0] * len(p.boxes), strict=True)
    ]
    return [box for _, box, f in sorted(set(annotated)) if f == frame]
