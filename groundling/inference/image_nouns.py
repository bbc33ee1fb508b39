"""Learning to predict nouns from the image vector, from captions.

A region source that was taught by captions keeps how likely each of its words is in the image vector; a word is
there whatever its part of speech ("a park", "parked cars"). Here nouns alone are learned from the numbers before
these, by a linear model of low rank (`metrics.calibration.ImageNouns`): a noun is in an image whose captions have it.
`evidence` weighs both, by images that neither was learned from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.calibration import FARTHEST, ImageNouns, logit
from groundling.progress import track
from groundling.regions.fingerprints import words_of
from groundling.regions.store import Store
from groundling.types import Example

FEWEST = 15  # photos that have a noun, from which on it is learned; of others u is 0 and v that of a noun on average
RANK = 64
EPOCHS = 10
BATCH = 256
RATE = 4e-3  # the highest learning rate: it rises, then falls
DECAY = 0.01  # of weights
DROPPED = 0.1  # share of the numbers of an image vector that are hidden in training
SMALLEST = 1e-3  # added to deviations


def learn(examples: Sequence[Example], store: Store, seed: int = 0, *, quiet: bool = True) -> ImageNouns:
    """From the captions of these images and their vectors in a store. DataError where its source knows no words."""
    words = words_of(store.fingerprint)
    if not words or not store.layout.whole:
        raise DataError(f"{store.path} has no words of images: --learn-from needs regions of the source `photos`")
    store.require(example.id for example in examples)
    place = {word: i for i, word in enumerate(words)}
    vectors = np.zeros((len(examples), store.layout.whole - len(words)), np.float32)
    has = np.zeros((len(examples), len(words)), bool)
    for i, example in enumerate(track(examples, "image vectors", total=len(examples), quiet=quiet)):
        whole = store.batch([example.id], 1).whole
        assert whole is not None  # the layout has it
        vectors[i] = whole[0, : vectors.shape[1]].numpy()
        for one in example.captions:
            nouns = (lemma for lemma, noun in zip(one.lemmas, one.nouns, strict=True) if noun)
            has[i, [place[lemma] for lemma in nouns if lemma in place]] = True
    return learned(vectors, has, seed)


def learned(
    vectors: NDArray[np.float32], has: NDArray[np.bool_], seed: int = 0, rank: int = RANK, epochs: int = EPOCHS
) -> ImageNouns:
    """vectors: (N, D). has: (N, W), do captions of the image have the noun? The cross-entropy of all nouns is least."""
    n, size = vectors.shape
    known = np.flatnonzero(has.sum(0) >= FEWEST)
    if not len(known):
        raise DataError(f"{n} images are too few to learn from: no noun is in the captions of {FEWEST}")
    mean, deviation = vectors.mean(0), vectors.std(0) + SMALLEST
    z = torch.from_numpy(np.clip((vectors - mean) / deviation, -FARTHEST, FARTHEST))
    counts, truth = has.sum(0)[known], torch.from_numpy(has[:, known])
    usual = logit((counts + 0.5) / (n + 1))
    v = torch.from_numpy(usual).float()
    draw = torch.Generator().manual_seed(seed)
    project = torch.nn.Parameter(torch.randn(rank, size, generator=draw) * size**-0.5)
    nouns = torch.nn.Parameter(torch.randn(len(known), rank, generator=draw) * 0.05)
    offset = torch.nn.Parameter(torch.zeros(len(known)))
    decayed = {"params": [project, nouns], "weight_decay": DECAY}
    optimizer = torch.optim.AdamW([decayed, {"params": [offset], "weight_decay": 0.0}], lr=RATE)
    batches = -(-n // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=epochs * batches)
    for _ in range(epochs):
        for some in torch.randperm(n, generator=draw).split(BATCH):  # type: ignore[no-untyped-call]
            kept = torch.rand(len(some), size, generator=draw) >= DROPPED
            u = z[some] * kept / (1 - DROPPED) @ project.T @ nouns.T + offset
            loss = F.binary_cross_entropy_with_logits(u + v, truth[some].float(), reduction="sum") / len(some)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    every, offsets = np.zeros((has.shape[1], rank), np.float32), np.zeros(has.shape[1], np.float32)
    every[known], offsets[known] = nouns.detach().numpy(), offset.detach().numpy()
    usuals = np.full(has.shape[1], np.average(usual, weights=counts))
    usuals[known] = usual
    return ImageNouns.packed(mean, deviation, project.detach().numpy(), every, offsets, usuals)
