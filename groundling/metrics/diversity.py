"""Diversity of captions, and whether a caption distinguishes its image from all others.

distinct-n   distinct n-grams of all captions / n-grams of all captions (Li et al., NAACL 2016)
vocabulary   distinct words of all captions
novel        share of captions that no caption of the training set equals, word for word
R@k          self-retrieval (Dai and Lin, NeurIPS 2017, section 4.1): caption i was generated for image i; all images
             are ranked by s_ij = log p(caption_i | image_j), and R@k is the share of captions whose own image is among
             the first k. Any other score of caption and image will do, for instance a matcher's.

Ties count against the caption: an image that scores as high as the right one ranks before it, so that a model to which
all images are alike retrieves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.ngrams import ORDERS, Numbers, Words, grams
from groundling.metrics.retrieval import own_ranks
from groundling.metrics.statistics import Statistics, mean_statistics, signature
from groundling.types import Score


def score_diversity(
    captions: Sequence[Words], training: Collection[Words] | None = None, tok: str = "words"
) -> list[Score]:
    """distinct-1, distinct-2, vocabulary and, given the captions of a training set, novel. `tok`: the tokenizer."""
    n = len(captions)
    rows = [(f"distinct-{k + 1}", share) for k, share in enumerate(distinct(captions)[:2])]
    rows.append(("vocabulary", float(len({word for caption in captions for word in caption}))))
    scores = [Score(name, value, n, signature(name, tok=tok, n=n)) for name, value in rows]
    return scores if training is None else [*scores, novel(captions, training, tok=tok).score()]


def distinct(captions: Iterable[Words]) -> list[float]:
    """distinct-1 to distinct-4; NaN where there are no n-grams."""
    orders = grams(Numbers().read(captions), [()] * ORDERS)
    return [len(order.new) / len(order.number) if len(order.number) else float("nan") for order in orders]


def novel(
    captions: Sequence[Words], training: Iterable[Words], ids: Sequence[str] = (), tok: str = "words"
) -> Statistics:
    """The share of captions that are not in the training set; NaN if there are no captions."""
    known = {tuple(caption) for caption in training}
    ids = tuple(ids) or tuple(str(i) for i in range(len(captions)))
    values = np.array([tuple(caption) not in known for caption in captions], np.float64)
    return mean_statistics("novel", signature("novel", tok=tok, n=len(ids)), ids, values)


def self_retrieval(
    scores: NDArray[np.floating] | Iterable[NDArray[np.floating]],
    ids: Sequence[str],
    ks: Sequence[int] = (1, 5, 10),
    by: str = "logp",
) -> list[Statistics]:
    """R@k of s (n, n), the score of caption i and image j, whole or as blocks of rows one after another (so that memory
    stays flat). `by` names the score in the signature."""
    ranks = own_ranks([scores] if isinstance(scores, np.ndarray) else scores)
    if len(ranks) != len(ids):
        raise ValueError(f"scores of {len(ranks)} captions for {len(ids)} ids")
    return [
        mean_statistics(f"R@{k}", signature(f"r@{k}", by=by, n=len(ids)), tuple(ids), (ranks <= k).astype(np.float64))
        for k in ks
    ]
