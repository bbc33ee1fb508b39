"""Learning to predict nouns from the image vector, from captions.

A region source that was taught by captions keeps how likely each of its words is in the image vector; a word is
there whatever its part of speech ("a park", "parked cars"). Here nouns alone are learned from the numbers before
these, by a linear model of low rank (`metrics.calibration.ImageNouns`): a noun is in an image whose captions have it.
They are the words of the source, and other nouns that the grounder knows.
The row of a noun is the sum of a linear function of what the grounder makes of it, which all nouns share, and of a part
of its own: so a rare noun is predicted as those that are like it.
`evidence` weighs both, by images that neither was learned from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.errors import DataError
from groundling.metrics.calibration import FARTHEST, ImageNouns, logit
from groundling.progress import track
from groundling.regions.fingerprints import words_of
from groundling.regions.store import Store
from groundling.types import Example

FEWEST = 15  # photos that have a word of the source as a noun, from which on it is learned; of others u is 0 and v that
# of a noun on average
FEWEST_OTHER = 5  # the same of another noun
MOST_OTHERS = 1000  # other nouns, the most frequent: each takes 76 bytes
RANK = 64
EPOCHS = 12
BATCH = 256
RATE = 4e-3  # the highest learning rate: it rises, then falls
DECAY = 0.01  # of weights
DROPPED = 0.1  # share of the numbers of an image vector that are hidden in training
SMALLEST = 1e-3  # added to deviations

Floats = NDArray[np.float32]
Embed = Callable[[Sequence[Sequence[str]]], Tensor]


def learn(
    examples: Sequence[Example],
    store: Store,
    embed: Embed | None = None,
    vocab: Collection[str] = (),
    seed: int = 0,
    *,
    quiet: bool = True,
) -> ImageNouns:
    """From the captions of these images and their vectors in a store. DataError where its source knows no words.

    embed: from words to the vectors that a grounder makes of them (P, H); nouns of its `vocab` are learned, too.
    """
    words = words_of(store.fingerprint)
    if not words or not store.layout.whole:
        raise DataError(f"{store.path} has no words of images: --learn-from needs regions of the source `photos`")
    store.require(example.id for example in examples)
    nouns = [
        {lemma for one in example.captions for lemma, noun in zip(one.lemmas, one.nouns, strict=True) if noun}
        for example in examples
    ]
    often = Counter(noun for some in nouns for noun in some)
    for word in words:
        del often[word]
    frequent = [noun for noun in often.keys() & set(vocab) if often[noun] >= FEWEST_OTHER]
    others = tuple(sorted(frequent, key=lambda noun: (-often[noun], noun))[:MOST_OTHERS])
    place = {noun: i for i, noun in enumerate((*words, *others))}
    vectors = np.zeros((len(examples), store.layout.whole - len(words)), np.float32)
    has = np.zeros((len(examples), len(place)), bool)
    for i, example in enumerate(track(examples, "image vectors", total=len(examples), quiet=quiet)):
        whole = store.batch([example.id], 1).whole
        assert whole is not None  # the layout has it
        vectors[i] = whole[0, : vectors.shape[1]].numpy()
        has[i, [place[noun] for noun in nouns[i] if noun in place]] = True
    meanings = None if embed is None else embed([[noun] for noun in place]).cpu().numpy()
    return learned(vectors, has, meanings, others, seed)


@torch.no_grad()
def learned(
    vectors: Floats,
    has: NDArray[np.bool_],
    meanings: Floats | None = None,
    others: Sequence[str] = (),
    seed: int = 0,
    rank: int = RANK,
    epochs: int = EPOCHS,
) -> ImageNouns:
    """The cross-entropy of all nouns is least.

    vectors: (N, D). has: (N, K), do captions of the image have the noun? meanings: (K, H), of the nouns. others: the
    last nouns, which are no words of the source.
    """
    n, size = vectors.shape
    count = has.shape[1]
    fewest = np.where(np.arange(count) < count - len(others), FEWEST, FEWEST_OTHER)
    known = np.flatnonzero(has.sum(0) >= fewest)
    if not len(known):
        raise DataError(f"{n} images are too few to learn from: no noun is in the captions of {FEWEST}")
    mean, deviation = vectors.mean(0), vectors.std(0) + SMALLEST
    z = torch.from_numpy(np.clip((vectors - mean) / deviation, -FARTHEST, FARTHEST))
    counts, truth = has.sum(0)[known], torch.from_numpy(has[:, known])
    usual = logit((counts + 0.5) / (n + 1))
    v = torch.from_numpy(usual).float()
    meaning = torch.zeros(len(known), 1) if meanings is None else _scaled(torch.from_numpy(meanings[known]))
    draw = torch.Generator().manual_seed(seed)
    project = torch.nn.Parameter(torch.randn(rank, size, generator=draw) * size**-0.5)
    own = torch.nn.Parameter(torch.randn(len(known), rank, generator=draw) * 0.05)
    shared = torch.nn.Parameter(torch.zeros(meaning.shape[1], rank))
    offset = torch.nn.Parameter(torch.zeros(len(known)))
    decayed = {"params": [project, own, shared], "weight_decay": DECAY}
    optimizer = torch.optim.AdamW([decayed, {"params": [offset], "weight_decay": 0.0}], lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=epochs * -(-n // BATCH))
    for _ in range(epochs):
        for some in torch.randperm(n, generator=draw).split(BATCH):  # type: ignore[no-untyped-call]
            x = z[some] * (torch.rand(len(some), size, generator=draw) >= DROPPED) / (1 - DROPPED)
            hidden, rows = x @ project.T, own + meaning @ shared
            # the gradient of the cross-entropy by u: what is predicted, less what is true
            wrong = ((hidden @ rows.T + offset + v).sigmoid_() - truth[some].float()) / len(some)
            own.grad = wrong.T @ hidden
            shared.grad, offset.grad, project.grad = meaning.T @ own.grad, wrong.sum(0), (wrong @ rows).T @ x
            optimizer.step()
            schedule.step()
    every, offsets = np.zeros((count, rank), np.float32), np.zeros(count, np.float32)
    every[known], offsets[known] = (own + meaning @ shared).numpy(), offset.numpy()
    usuals = np.full(count, np.average(usual, weights=counts))
    usuals[known] = usual
    return ImageNouns.packed(mean, deviation, project.numpy(), every, offsets, usuals, others)


def _scaled(meanings: Tensor) -> Tensor:
    """(K, H) of mean 0, their lengths 4 on average: so what nouns share is learned as fast as what they have alone."""
    apart = meanings - meanings.mean(0)
    length = max(float(apart.norm(dim=1).mean()), SMALLEST)
    return apart * (4 / length)
