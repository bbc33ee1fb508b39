"""F1 of a generated sentence against all reference captions of its image together (Ma et al., ECCV 2020, section 4.1).

The object words of all captions of an image, with their boxes, are one pool. For one generated sentence (appendix A):

    A  object words of the sentence                 B  object classes of the pool
    C  those of A whose class is in the pool        D  classes of the pool that the sentence names
    E  words of C with IoU > 0.5 to a box of their class; of D, the classes that have such a word

    all:  precision = E / A,  recall = E / B          loc:  precision = E / C,  recall = E / D

The score is the mean F1 of the sentences; "all" leaves out images whose pool is empty, "loc" those of which the
sentence names nothing. The official evaluator of images, which `f1_per_sent_*` follows, compares the sentence with each
caption by itself instead, and averages over the captions. A video segment has one caption: its pool is that caption.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from groundling.metrics.grounding import Grounding, Pointing
from groundling.metrics.overlap import iou
from groundling.metrics.statistics import Array, Statistics, signature

MODES = ("all", "loc")


def pooled_statistics(grounding: Grounding) -> dict[str, Statistics]:
    """{"f1_pooled_all": ..., "f1_pooled_loc": ...}"""
    values = _rows(grounding)
    fields = {"iou": f"{grounding.threshold:g}", "text": "generated", "pool": "captions", **grounding.fields}
    return {
        name: Statistics(name, signature(name, **fields), grounding.items, values, partial(_mean, column=2 * m))
        for m, name in enumerate(f"f1_pooled_{mode}" for mode in MODES)
    }


def _rows(grounding: Grounding) -> Array:
    """(items, 4): F1 of its sentence and whether that counts, in "all" and then in "loc"."""
    pools: list[dict[str, list[tuple[int, int]]]] = [{} for _ in grounding.items]  # class -> (sentence, box) of each
    pointings: list[Pointing | None] = [None] * len(grounding.items)
    for s, sentence in enumerate(grounding.sentences):
        item = int(grounding.item_of[s])
        pointings[item] = pointings[item] or grounding.pointings[s]
        for word in sentence.words:
            pools[item].setdefault(word.label, []).extend((s, row) for row in word.rows)
    right = _hits(grounding, pools, pointings)
    return np.array([_f1(pool, words, right[i]) for i, (pool, words) in enumerate(zip(pools, pointings, strict=True))])


def _hits(
    grounding: Grounding, pools: list[dict[str, list[tuple[int, int]]]], pointings: list[Pointing | None]
) -> list[set[int]]:
    """Of each item, the words of its sentence that are at a box of their class."""
    pairs, predicted, truth = [], [], []
    for item, (pool, pointing) in enumerate(zip(pools, pointings, strict=True)):
        for k, label in enumerate(pointing.labels if pointing else ()):
            for s, row in pool.get(label, ()):
                frame = int(grounding.sentences[s].frames[row])
                if pointing is not None and 0 <= frame < pointing.boxes.shape[1]:
                    pairs.append((item, k))
                    predicted.append(pointing.boxes[k, frame])
                    truth.append(grounding.sentences[s].boxes[row])
    right: list[set[int]] = [set() for _ in pools]
    if pairs:
        for i in np.flatnonzero(iou(np.stack(predicted), np.stack(truth)) > np.float32(grounding.threshold)):
            right[pairs[i][0]].add(pairs[i][1])
    return right


def _f1(pool: dict[str, list[tuple[int, int]]], pointing: Pointing | None, right: set[int]) -> list[float]:
    labels = pointing.labels if pointing else ()
    named = [label for label in labels if label in pool]  # C
    correct = len({labels[k] for k in right})  # E, by class
    asked = ((len(labels), len(pool)), (len(named), len(set(named))))
    row = []
    for of_sentence, of_pool in asked:
        p, r = len(right) / max(1, of_sentence), correct / max(1, of_pool)
        row += [2 * p * r / (p + r) if p + r else 0.0, float(of_pool > 0)]
    return row


def _mean(sums: Array, column: int) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., column] / sums[..., column + 1])
