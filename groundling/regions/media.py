"""Regions of what is in a file: of a picture, or of the frames of a clip together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from groundling.images import open_image
from groundling.tensors import Regions, RegionSource
from groundling.video import FRAMES, Segment, frames, is_clip


def of_media(source: RegionSource, path: Path | str, count: int = FRAMES, segment: Segment | None = None) -> Regions:
    """One image's regions, or those of `count` frames of a clip as one (B = 1), each with the number of its frame."""
    if is_clip(path):
        return of_frames([source(frame) for frame in frames(path, count, segment)])
    return source(open_image(path))


def of_frames(frames: Iterable[Regions]) -> Regions:
    """The regions of a clip from those of its frames, in order: the first of every frame, then the second, and so on.

    Sources put the most telling regions first, so a model that looks at no more than so many sees the best of each
    frame. The features of the whole image and the feature map are means over the frames.
    """
    each = list(frames)
    stacked = Regions.stack(each)  # (F, R, ...)
    f, r = stacked.valid.shape
    numbers = torch.arange(f)[:, None].expand(f, r)

    def in_turn(x: Tensor) -> Tensor:
        """(F, R, ...) -> (1, regions, ...), without what was padded."""
        return x.transpose(0, 1)[stacked.valid.T][None]

    rows = {name: in_turn(getattr(stacked, name)) for name in ("feats", "boxes", "valid", "labels", "scores")}
    return replace(
        stacked,
        **rows,
        frame=in_turn(numbers),
        size=stacked.size[:1],
        whole=None if stacked.whole is None else stacked.whole.mean(0, keepdim=True),
        grid=None if stacked.grid is None else stacked.grid.mean(0, keepdim=True),
        classes=None if stacked.classes is None else in_turn(stacked.classes),
        pictures=None,
    )
