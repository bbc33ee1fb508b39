"""BLEU-1 to BLEU-4 of captions, with the constants of the published scorer.

Papineni et al., ACL 2002. Summed over the corpus, for each order n = 1..4: g_n n-grams were said, c_n of them are in a
reference of their image, an n-gram counting at most as often as in the reference that has it most often; h words were
said; r is the sum of the lengths of the references that are closest in length, the shorter of two equally close.

    BLEU-k = (prod_{n <= k} (c_n + 1e-15) / (g_n + 1e-9))^(1/k) * exp(1 - 1/q) if q < 1,    q = (h + 1e-15) / (r + 1e-9)

The score of one image is the same formula on its own counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.ngrams import ORDERS, SHIFT, Ints, Numbers, bag, grams

Floats = NDArray[np.float64]
Words = Sequence[str]

SMALL, TINY = 1e-9, 1e-15


def counts(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Floats:
    """(n, 10) per item: h, r, g_1..g_4, c_1..c_4. These add up over a corpus."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} lists of references")
    n = len(hypotheses)
    per_image = np.fromiter(map(len, references), np.int64, n)
    if not per_image.all():
        raise ValueError(f"image {int(np.argmin(per_image))} has no reference")
    sentences = Numbers().read([*hypotheses, *(r for refs in references for r in refs)])
    image = np.concatenate([np.arange(n), np.repeat(np.arange(n), per_image)])
    said = sentences.lengths[:n]
    guessed = np.maximum(said[:, None] - np.arange(ORDERS), 0)
    correct = np.stack([_clipped(g.sentence, g.number, image, n) for g in grams(sentences, [()] * ORDERS)], 1)
    closest = _closest(said, sentences.lengths[n:], image[n:])
    return np.column_stack([said, closest, guessed, correct]).astype(np.float64)


def bleu(counts: Floats, order: int) -> Floats:
    """BLEU-`order` of summed counts (..., 10) -> (...)."""
    said, wanted = counts[..., 0], counts[..., 1]
    guessed, correct = counts[..., 2 : 2 + order], counts[..., 2 + ORDERS : 2 + ORDERS + order]
    precision = np.prod((correct + TINY) / (guessed + SMALL), axis=-1) ** (1 / order)
    ratio = (said + TINY) / (wanted + SMALL)
    return np.asarray(precision * np.exp(np.minimum(1 - 1 / ratio, 0)))


def _clipped(sentence: Ints, gram: Ints, image: Ints, n: int) -> Ints:
    """How many n-grams of each hypothesis are in its references; sentences below n are the hypotheses."""
    entries = bag(sentence, gram)
    mine = np.searchsorted(entries.sentence, n)  # entries are sorted by sentence: the hypotheses come first
    key = (image[entries.sentence] << SHIFT) + entries.gram
    place = np.searchsorted(key[:mine], key[mine:])
    shared = np.flatnonzero(place < mine)
    shared = shared[key[place[shared]] == key[mine:][shared]]
    most = np.zeros(mine, np.int64)
    np.maximum.at(most, place[shared], entries.times[mine:][shared])
    return np.bincount(entries.sentence[:mine], np.minimum(most, entries.times[:mine]), n).astype(np.int64)


def _closest(said: Ints, wanted: Ints, image: Ints) -> Ints:
    """The length of the reference that is closest to the hypothesis; of two, the shorter."""
    distance = np.abs(wanted - said[image])
    order = np.lexsort((wanted, distance, image))
    first = np.unique(image[order], return_index=True)[1]
    return wanted[order][first]
