"""Images of things whose words have a planted region: what every recipe must learn, and point at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from groundling.data.dataset import Dataset
from groundling.regions.store import Store, Writer
from groundling.tensors import Regions
from groundling.types import Caption, Example, Fingerprint, Phrase

THINGS = ("dog", "cat", "ball", "tree", "boat", "kite")
REGIONS = 5
DIM = len(THINGS) + 2


def caption(first: str, second: str) -> Caption:
    words = ("the", first, "near", "the", second)
    text = " ".join(words)
    starts = np.cumsum([0] + [len(word) + 1 for word in words[:-1]])
    spans = tuple((int(s), int(s) + len(word)) for s, word in zip(starts, words, strict=True))
    return Caption(text, words, spans, ("DT", "NN", "IN", "DT", "NN"), words, ((0, 2), (3, 5)))


def make(folder: Path, images: int = 40, seed: int = 0) -> tuple[Dataset, Store]:
    """Each image holds two things, the left one named first, among regions of noise; every fifth image is `val`."""
    draw = np.random.default_rng(seed)
    examples = []
    with Writer(folder, Fingerprint("planted", "1", DIM)) as writer:
        for number in range(images):
            left, right = draw.choice(len(THINGS), 2, replace=False)
            at = sorted(draw.choice(REGIONS, 2, replace=False).tolist())
            feats = 0.1 * torch.from_numpy(draw.standard_normal((REGIONS, DIM))).float()
            feats[at[0], left] += 2
            feats[at[1], right] += 2
            feats[at[0], DIM - 2] = feats[at[1], DIM - 1] = 2  # which one is left can be seen
            boxes = torch.tensor([[10.0 * i, 0, 10 * i + 10, 10] for i in range(REGIONS)])
            writer.add(str(number), Regions.of(feats, boxes, (10 * REGIONS, 10)))
            gold = tuple(
                Phrase(0, span, boxes=(tuple(boxes[i].tolist()),), head=span[1] - 1)
                for span, i in zip(((0, 2), (3, 5)), at, strict=True)
            )
            sentence = caption(THINGS[left], THINGS[right])
            split = "val" if number % 5 == 0 else "train"
            examples.append(Example(str(number), "", (10 * REGIONS, 10), (sentence,), gold, split=split))
    return Dataset("planted", folder, tuple(examples)), Store.open(folder)
