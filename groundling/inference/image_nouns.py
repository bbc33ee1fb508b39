"""Learning to predict nouns from the image vector, from captions.

A region source that was taught by captions keeps how likely each of its words is in the image vector; a word is
there whatever its part of speech ("a park", "parked cars"). Here nouns alone are learned from the numbers before
these, by a linear model of low rank (`metrics.calibration.ImageNouns`): a noun is in an image whose captions have it.
They are the words of the source, and other nouns that the grounder knows.
The row of a noun is the sum of a linear function of what the grounder makes of it, which all nouns share, and of a part
of its own: so a rare noun is predicted as those that are like it.
`evidence` weighs both, by images that neither was learned from.

A contrast (`learn_contrast`) is the same model, learned otherwise: what tells a noun from others of its class. A noun
that is not there counts as often as it would be drawn in place of those of its class that are (`Against`), as absent
phrases are drawn in `inference.calibration`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.errors import DataError
from groundling.metrics.calibration import FARTHEST, ImageNouns, logit
from groundling.progress import track
from groundling.regions.fingerprints import words_of
from groundling.regions.store import Store
from groundling.text.absent_nouns import related
from groundling.text.noun_kinds import kind_of
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
    words = _words(store)
    store.require(example.id for example in examples)
    nouns = _nouns(examples)
    often = Counter(noun for some in nouns for noun in some)
    for word in words:
        del often[word]
    frequent = [noun for noun in often.keys() & set(vocab) if often[noun] >= FEWEST_OTHER]
    others = tuple(sorted(frequent, key=lambda noun: (-often[noun], noun))[:MOST_OTHERS])
    place = {noun: i for i, noun in enumerate((*words, *others))}
    vectors, has = _vectors(examples, store, quiet), _has(nouns, place)
    meanings = None if embed is None else embed([[noun] for noun in place]).cpu().numpy()
    return learned(vectors, has, meanings, others, seed)


def learn_contrast(
    sets: Sequence[tuple[Sequence[Example], Store]],
    others: Sequence[str] = (),
    embed: Embed | None = None,
    seed: int = 0,
    *,
    quiet: bool = True,
) -> ImageNouns:
    """From the images of several data sets, whose stores have one source. DataError where it knows no words.

    others: nouns that are no words of the source, those of the `ImageNouns` that the contrast stands beside. In each
    data set a noun is drawn as often as its captions have it. embed: as in `learn`.
    """
    words = _words(sets[0][1])
    place = {noun: i for i, noun in enumerate((*words, *others))}
    vectors, has, counts = [], [], []
    relatives, kinds = related([*place]), [kind_of(noun) for noun in place]
    for examples, store in sets:
        store.require(example.id for example in examples)
        vectors.append(_vectors(examples, store, quiet))
        has.append(_has(_nouns(examples), place))
        counts.append(Against(has[-1], kinds, relatives).counts())
    meanings = None if embed is None else embed([[noun] for noun in place]).cpu().numpy()
    return learned(np.concatenate(vectors), np.concatenate(has), meanings, others, seed, counts=np.concatenate(counts))


def _words(store: Store) -> tuple[str, ...]:
    words = words_of(store.fingerprint)
    if not words or not store.layout.whole:
        raise DataError(f"{store.path} has no words of images: learning nouns needs regions of the source `photos`")
    return words


def _nouns(examples: Sequence[Example]) -> list[set[str]]:
    """Of the captions of each image."""
    return [
        {lemma for one in example.captions for lemma, noun in zip(one.lemmas, one.nouns, strict=True) if noun}
        for example in examples
    ]


def _has(nouns: Sequence[set[str]], place: Mapping[str, int]) -> NDArray[np.bool_]:
    has = np.zeros((len(nouns), len(place)), bool)
    for i, some in enumerate(nouns):
        has[i, [place[noun] for noun in some if noun in place]] = True
    return has


def _vectors(examples: Sequence[Example], store: Store, quiet: bool) -> Floats:
    """(N, D): the numbers of image vectors that are no words."""
    vectors = np.zeros((len(examples), store.layout.whole - len(words_of(store.fingerprint))), np.float32)
    for i, example in enumerate(track(examples, "image vectors", total=len(examples), quiet=quiet)):
        whole = store.batch([example.id], 1).whole
        assert whole is not None  # the layout has it
        vectors[i] = whole[0, : vectors.shape[1]].numpy()
    return vectors


@dataclass(frozen=True)
class Against:
    """How often nouns count in N images where each is learned against the others of its class.

    A noun that is there counts once. In its place a noun of its class would be drawn that is not there, nor related to
    one that is, as often as captions have it: so often that one counts.
    """

    has: NDArray[np.bool_]  # (N, K)
    kinds: Sequence[str]  # K classes
    relatives: NDArray[np.bool_]  # (K, K)

    def counts(self) -> Floats:
        """(N, K)"""
        has = self.has.astype(np.float32)
        drawn = np.where(has @ self.relatives.astype(np.float32) > 0, 0, has.sum(0))
        names = np.array(sorted(set(self.kinds)))
        member = (np.array(self.kinds)[:, None] == names).astype(np.float32)  # (K, classes)
        there, could_be = has @ member, drawn @ member
        return np.asarray(np.where(self.has, 1, drawn * ((there / np.maximum(could_be, 1)) @ member.T)), np.float32)


@torch.no_grad()
def learned(
    vectors: Floats,
    has: NDArray[np.bool_],
    meanings: Floats | None = None,
    others: Sequence[str] = (),
    seed: int = 0,
    rank: int = RANK,
    epochs: int = EPOCHS,
    counts: Floats | None = None,
) -> ImageNouns:
    """The cross-entropy of all nouns is least.

    vectors: (N, D). has: (N, K), do captions of the image have the noun? meanings: (K, H), of the nouns. others: the
    last nouns, which are no words of the source. counts: (N, K), how often each counts: then a noun is as likely there
    as not where nothing is known of the image, and v is 0.
    """
    n, size = vectors.shape
    count = has.shape[1]
    fewest = np.where(np.arange(count) < count - len(others), FEWEST, FEWEST_OTHER)
    known = np.flatnonzero(has.sum(0) >= fewest)
    if not len(known):
        raise DataError(f"{n} images are too few to learn from: no noun is in the captions of {FEWEST}")
    mean, deviation = vectors.mean(0), vectors.std(0) + SMALLEST
    z = torch.from_numpy(np.clip((vectors - mean) / deviation, -FARTHEST, FARTHEST))
    often, truth = has.sum(0)[known], torch.from_numpy(has[:, known])
    usual = logit((often + 0.5) / (n + 1)) if counts is None else np.zeros(len(known))
    each = None if counts is None else torch.from_numpy(counts[:, known])
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
            wrong = wrong if each is None else wrong * each[some]
            own.grad = wrong.T @ hidden
            shared.grad, offset.grad, project.grad = meaning.T @ own.grad, wrong.sum(0), (wrong @ rows).T @ x
            optimizer.step()
            schedule.step()
    every, offsets = np.zeros((count, rank), np.float32), np.zeros(count, np.float32)
    every[known], offsets[known] = (own + meaning @ shared).numpy(), offset.numpy()
    usuals = np.full(count, np.average(usual, weights=often))
    usuals[known] = usual
    return ImageNouns.packed(mean, deviation, project.numpy(), every, offsets, usuals, others)


def _scaled(meanings: Tensor) -> Tensor:
    """(K, H) of mean 0, their lengths 4 on average: so what nouns share is learned as fast as what they have alone."""
    apart = meanings - meanings.mean(0)
    length = max(float(apart.norm(dim=1).mean()), SMALLEST)
    return apart * (4 / length)
