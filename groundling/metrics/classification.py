"""Region classification: does the class that a model gives to a proposal fit what is there? ("Cls." of GVD, CVPR 2019.)

Every pair of a proposal and a true box of the same frame with IoU > 0.5 is a question; its answer is the class of the
box, the guess that of the proposal ("" or any other name for the background is always wrong). Accuracy is averaged over
the classes of the split's annotated words; a class without a question counts 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from groundling.metrics.grounding import Ints, Sentence, counted
from groundling.metrics.overlap import Boxes, iou
from groundling.metrics.statistics import Array, Statistics, signature


@dataclass(frozen=True)
class Proposals:
    """Regions of one image or segment, each with the likeliest class."""

    boxes: Boxes  # (R, 4) in whole pixels, both ends included
    labels: Sequence[str]  # R
    frames: Ints | None = None  # (R,), 0 where not given


def region_classification(
    proposals: Mapping[str, Proposals], sentences: Sequence[Sentence], threshold: float = 0.5
) -> Statistics:
    """The accuracy as statistics per item. `sentences` are those of `grounding_image` or `grounding_video`."""
    items = list(dict.fromkeys(sentence.item for sentence in sentences))
    row_of = {item: row for row, item in enumerate(items)}
    column_of = {name: c for c, name in enumerate(sorted({word.label for s in sentences for word in s.words}))}
    c = len(column_of)
    rows: list[int] = []
    columns: list[int] = []
    for sentence in sentences:
        row, regions = row_of[sentence.item], proposals.get(sentence.item)
        for word in sentence.words:
            column = column_of[word.label]
            rows.append(row)
            columns.append(2 * c + column)
            if regions is not None:
                guesses = _guesses(regions, sentence, word.rows, threshold)
                rows += [row] * len(guesses)
                columns += [column + c for _ in guesses]
                right = sum(guess == word.label for guess in guesses)
                rows += [row] * right
                columns += [column] * right
    values = counted(np.array(rows, np.intp), np.array(columns, np.intp), (len(items), 3 * c))
    return Statistics("cls", signature("cls", iou=f"{threshold:g}"), tuple(items), values, _accuracy)


def _guesses(regions: Proposals, sentence: Sentence, rows: Sequence[int], threshold: float) -> list[str]:
    frames = np.zeros(len(regions.boxes), np.intp) if regions.frames is None else regions.frames
    guesses = []
    for row in rows:
        meets = (iou(regions.boxes, sentence.boxes[row]) > np.float32(threshold)) & (frames == sentence.frames[row])
        guesses += [regions.labels[i] for i in np.flatnonzero(meets).tolist()]
    return guesses


def _accuracy(sums: Array) -> Array:
    hits, pairs, words = np.split(sums, 3, axis=-1)
    ratio = np.divide(hits, pairs, out=np.zeros_like(pairs), where=pairs > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(ratio.sum(-1) / (words > 0).sum(-1))
