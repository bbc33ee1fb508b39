"""Examples, some of their captions and their regions, made into a Batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.boxes import iou, union
from groundling.tensors import Batch, Regions
from groundling.types import BOS, EOS, PAD, Caption, Example, Phrase, Vocab


@dataclass(frozen=True)
class Line:
    """A caption as numbers: BOS, at most `length` words, EOS. Made once, collated in every epoch."""

    tokens: NDArray[np.int32]  # (t,)
    nouns: NDArray[np.bool_]  # (t,)
    visual: NDArray[np.bool_]  # (t,)
    chunks: NDArray[np.int32]  # (p, 2), spans of `tokens`; what was cut off is not in them

    def __len__(self) -> int:
        return len(self.tokens)


def encode(caption: Caption, vocab: Vocab, length: int) -> Line:
    words = caption.tokens[:length]
    verbs = [tag.startswith("VB") for tag in caption.tags] or [False] * len(caption.tokens)
    nouns = np.zeros(len(words) + 2, bool)
    visual = np.zeros(len(words) + 2, bool)
    nouns[1:-1] = caption.nouns[:length]
    visual[1:-1] = verbs[:length]
    spans = [(start + 1, min(end, length) + 1) for start, end in caption.chunks if start < length]
    return Line(
        np.array([BOS, *vocab.encode(words), EOS], np.int32),
        nouns,
        visual | nouns,
        np.array(spans, np.int32).reshape(-1, 2),
    )


def collate(examples: Sequence[Example], lines: Sequence[Sequence[Line]], regions: Regions, vocab: Vocab) -> Batch:
    """B examples, the lines of each that take part, and the regions of each. The truth stays out: see `overlap`."""
    flat = [line for of_image in lines for line in of_image]
    size = max(len(line) for line in flat)
    tokens = np.full((len(flat), size), PAD, np.int64)
    nouns, visual = np.zeros((2, len(flat), size), bool)
    for i, line in enumerate(flat):
        tokens[i, : len(line)] = line.tokens
        nouns[i, : len(line)] = line.nouns
        visual[i, : len(line)] = line.visual
    return Batch(
        ids=tuple(example.id for example in examples),
        regions=regions,
        image_of=torch.arange(len(lines)).repeat_interleave(torch.tensor([len(of_image) for of_image in lines])),
        tokens=torch.from_numpy(tokens),
        nouns=torch.from_numpy(nouns),
        visual=torch.from_numpy(visual),
        chunk_of=torch.arange(len(flat)).repeat_interleave(torch.tensor([len(line.chunks) for line in flat])),
        chunks=torch.from_numpy(np.concatenate([line.chunks for line in flat]).astype(np.int64)),
        refs=tuple(tuple(caption.tokens for caption in example.captions) for example in examples),
        vocab=vocab,
    )


def overlap(
    examples: Sequence[Example],
    captions: Sequence[Sequence[int]],
    regions: Regions,
    size: int,
    merge: bool = True,
) -> Tensor:
    """The truth, for recipes that declare `uses_boxes`: (N, size, R), the IoU of each region with the place of a word.

    The word carries the boxes of its phrase, in their frames: the head of the phrase, or each of its nouns if none is
    named. Its place is the box around them all, as evaluators take it; without `merge` any of them. 0 for other words.
    `captions` are those of each example that take part, in the order of the batch; `size` is that of the longest line,
    whose last token is EOS: the word that was cut there is not in it.
    """
    overlaps = torch.zeros(sum(map(len, captions)), size, regions.boxes.shape[1])
    row = 0
    for b, (example, chosen) in enumerate(zip(examples, captions, strict=True)):
        for caption in chosen:
            for phrase in example.gold:
                if phrase.caption == caption and phrase.boxes:
                    words = [t + 1 for t in _carriers(phrase, example.captions[caption]) if t + 1 < size - 1]
                    shares = overlap_with(phrase, example, regions, b, merge)
                    overlaps[row, words] = torch.maximum(overlaps[row, words], shares)
            row += 1
    return overlaps


def _carriers(phrase: Phrase, caption: Caption) -> list[int]:
    """The tokens of the caption that a phrase's boxes are the place of."""
    return [phrase.head] if phrase.head >= 0 else [t for t in range(*phrase.span) if caption.nouns[t]]


def covers(phrase: Phrase, example: Example, regions: Regions, b: int) -> Tensor:
    """(R,) bool: the regions of image `b` that have an IoU above 0.5 with a box of the phrase, in the box's frame."""
    return overlap_with(phrase, example, regions, b, merge=False) > 0.5


def overlap_with(phrase: Phrase, example: Example, regions: Regions, b: int, merge: bool) -> Tensor:
    """(R,): IoU of the regions of image `b` with the box around those of the phrase in its frame, or the best of them.

    Boxes follow the size that the regions were made at, where that is another one.
    """
    boxes, frames = torch.tensor(phrase.boxes).float(), torch.tensor(phrase.frames or [0] * len(phrase.boxes))
    if merge:
        kept = torch.tensor(sorted(set(frames.tolist())))
        boxes, frames = union(boxes.expand(len(kept), *boxes.shape), kept[:, None] == frames), kept
    shared = iou(regions.boxes[b], boxes * regions.scale(b, example.size).float())  # (R, boxes)
    if phrase.frames:
        shared = shared * (regions.frame[b][:, None] == frames)
    return shared.amax(1) * regions.valid[b]
