"""Captions of other images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.data.collate import encode
from groundling.errors import GroundlingError
from groundling.recipes import TrainingContext
from groundling.types import PAD


@dataclass(frozen=True)
class Mismatched:
    """All captions of a training set, to draw from for any of its images but their own."""

    tokens: Tensor  # (M, T + 1), BOS words EOS PAD, image by image
    first: dict[str, int]  # where the captions of an image begin
    count: dict[str, int]  # how many it has

    @staticmethod
    def of(context: TrainingContext) -> Mismatched:
        lines: list[NDArray[np.int32]] = []
        first: dict[str, int] = {}
        count: dict[str, int] = {}
        for example in context.examples:
            first[example.id] = len(lines)
            lines += [
                encode(caption, context.vocab, context.length).tokens for caption in example.captions if caption.tokens
            ]
            count[example.id] = len(lines) - first[example.id]
        if max(count.values()) == len(lines):
            raise GroundlingError("all captions are of one image, none to contrast it with (groundling: --contrast 0)")
        tokens = torch.full((len(lines), max(map(len, lines))), PAD)
        for row, line in zip(tokens, lines, strict=True):
            row[: len(line)] = torch.from_numpy(line)
        return Mismatched(tokens, first, count)

    def draw(self, images: list[str], each: int) -> Tensor:
        """(len(images) * each, T + 1): `each` captions for every image, any of the others' with the same chance."""
        first = torch.tensor([self.first[image] for image in images]).repeat_interleave(each)
        count = torch.tensor([self.count[image] for image in images]).repeat_interleave(each)
        others = len(self.tokens) - count
        number = (torch.rand(len(first), dtype=torch.float64) * others).long().clamp(max=others - 1)
        drawn = self.tokens[number + count * (number >= first)]  # an image's own captions are stepped over
        return drawn[:, : int((drawn != PAD).sum(1).max())]
