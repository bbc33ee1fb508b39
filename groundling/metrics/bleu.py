"""BLEU-1 to BLEU-4 of captions, with the constants of the published scorer.

Papineni et al., ACL 2002. Summed over the corpus, for each order n = 1..4: g_n n-grams were said, c_n of them are in a
reference of their image, an n-gram counting at most as often as in the reference that has it most often; h words were
said; r is the sum of the lengths of the references that are closest in length, the shorter of two equally close.

    BLEU-k = (prod_{n <= k} (c_n + 1e-15) / (g_n + 1e-9))^(1/k) * exp(1 - 1/q) if q < 1,    q = (h + 1e-15) / (r + 1e-9)

The score of one image is the same formula on its own counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.ngrams import ORDERS, SHIFT, Corpus, Ints, Sentences, bag, grams

Floats = NDArray[np.float64]

SMALL, TINY = 1e-9, 1e-15


def counts(corpus: Corpus) -> Floats:
    """(n, 10) per image: h, r, g_1..g_4, c_1..c_4. These add up over a corpus."""
    return np.concatenate([np.zeros((0, 2 + 2 * ORDERS)), *map(_counts, corpus.blocks())])


def bleu(counts: Floats, order: int) -> Floats:
    """BLEU-`order` of summed counts (..., 10) -> (...)."""
    length, wanted = counts[..., 0], counts[..., 1]
    guessed, correct = counts[..., 2 : 2 + order], counts[..., 2 + ORDERS : 2 + ORDERS + order]
    precision = np.prod((correct + TINY) / (guessed + SMALL), axis=-1) ** (1 / order)
    ratio = (length + TINY) / (wanted + SMALL)
    return np.asarray(precision * np.exp(np.minimum(1 - 1 / ratio, 0)))


def _counts(corpus: Corpus) -> Ints:
    lengths = corpus.hypotheses.lengths
    guessed = np.maximum(lengths[:, None] - np.arange(ORDERS), 0)
    closest = _closest(lengths, corpus.references.lengths, corpus.image)
    return np.column_stack([lengths, closest, guessed, _correct(corpus)])


def _correct(corpus: Corpus) -> Ints:
    """(n, 4) how many n-grams of each hypothesis are in its references."""
    n = len(corpus)
    words = np.concatenate([corpus.hypotheses.words, corpus.references.words])
    lengths = np.concatenate([corpus.hypotheses.lengths, corpus.references.lengths])
    entries = bag(list(grams(Sentences(words, lengths), [()] * ORDERS)))
    mine = np.searchsorted(entries.sentence, n)  # entries are sorted by sentence: the hypotheses come first
    key = (np.concatenate([np.arange(n), corpus.image])[entries.sentence] << SHIFT) + entries.gram
    index = np.searchsorted(key[:mine], key[mine:])
    shared = np.flatnonzero(index < mine)
    shared = shared[key[index[shared]] == key[mine:][shared]]
    most = np.zeros(mine, np.int64)  # times in the reference that has the n-gram most often
    np.maximum.at(most, index[shared], entries.times[mine:][shared])
    row = (entries.sentence * ORDERS + entries.order)[:mine]
    return np.bincount(row, np.minimum(most, entries.times[:mine]), n * ORDERS).astype(np.int64).reshape(n, ORDERS)


def _closest(length: Ints, wanted: Ints, image: Ints) -> Ints:
    """The length of the reference that is closest to the hypothesis; of two, the shorter."""
    distance = np.abs(wanted - length[image])
    order = np.lexsort((wanted, distance, image))
    first = np.unique(image[order], return_index=True)[1]
    return wanted[order][first]
