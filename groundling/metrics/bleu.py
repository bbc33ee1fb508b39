"""BLEU-1 to BLEU-4 of captions, with the constants of the published scorer.

Papineni et al., ACL 2002. Summed over the corpus, for each order n = 1..4: there are g_n n-grams, c_n of them are in a
reference of their image, an n-gram counting at most as often as in the reference that has it most often; h words are in
the captions; r is the sum of the lengths of the references that are closest in length, the shorter of two equally
close.

    BLEU-k = (prod_{n <= k} (c_n + 1e-15) / (g_n + 1e-9))^(1/k) * exp(1 - 1/q) if q < 1,    q = (h + 1e-15) / (r + 1e-9)

The score of one image is the same formula on its own counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.ngrams import LOW, ORDERS, SHIFT, Corpus, Entries, Ints, run_ends

Floats = NDArray[np.float64]

SMALL, TINY = 1e-9, 1e-15


def counts(corpus: Corpus) -> Floats:
    """(n, 10) per image: h, r, g_1..g_4, c_1..c_4. These add up over a corpus."""
    lengths = corpus.hypotheses.lengths
    guessed = np.maximum(lengths[:, None] - np.arange(ORDERS), 0)
    closest = _closest(lengths, corpus.references.lengths, corpus.image)
    correct = [_correct(entries, corpus) for entries in corpus.entries]
    return np.column_stack([lengths, closest, guessed, *correct]).astype(np.float64)


def bleu(counts: Floats, order: int) -> Floats:
    """BLEU-`order` of summed counts (..., 10) -> (...)."""
    length, wanted = counts[..., 0], counts[..., 1]
    guessed, correct = counts[..., 2 : 2 + order], counts[..., 2 + ORDERS : 2 + ORDERS + order]
    precision = np.prod((correct + TINY) / (guessed + SMALL), axis=-1) ** (1 / order)
    ratio = (length + TINY) / (wanted + SMALL)
    return np.asarray(precision * np.exp(np.minimum(1 - 1 / ratio, 0)))


def _correct(entries: Entries, corpus: Corpus) -> Floats:
    """(n,) how many n-grams of each hypothesis are in its references."""
    runs = run_ends(entries.hypothesis)
    if len(runs) == 1:
        return np.zeros(len(corpus))
    own = entries.hypothesis[runs[:-1]]
    most = np.maximum.reduceat(entries.times[entries.other], runs[:-1])  # in the reference that has it most often
    image = np.searchsorted(corpus.first, entries.sentence[own])
    return np.asarray(np.bincount(image, np.minimum(most, entries.times[own]), len(corpus)), np.float64)


def _closest(length: Ints, wanted: Ints, image: Ints) -> Ints:
    """The length of the reference that is closest to the hypothesis; of two, the shorter."""
    rank = (np.abs(wanted - length[image]) << SHIFT) + wanted
    first = np.searchsorted(image, np.arange(len(length)))
    return np.asarray(np.minimum.reduceat(rank, first) & LOW) if len(length) else length
