"""What goes wrong in grounded captions, and where: the error analysis of Distributed Attention (MM 2021, section 4.5).

Every noun of a system's captions and every annotated noun of the references is one of five kinds; their shares add up
to 1. (The paper gives definitions and no code. Here nouns are words with an object class, and captions are compared as
F1 compares them: the prediction with each reference caption of its image, words that nobody annotated left out.)

    mis_cls    in the reference, not in the prediction
    hallu_cls  in the prediction, not in the reference
    corr_grd   in both, IoU > 0.5
    part_grd   in both, the predicted box inside a true box, and not corr_grd
    other_err  in both, and neither of these

Wrong groundings are also told apart by shape (its figure 2): partial, the box is inside the true one; enlarged, the
true box is inside it; deviated, neither. The upper bound scores partial groundings as right.
`by_frequency` averages classes by how often they are annotated in training (cyclical captioning, ECCV 2020, figure 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from groundling.metrics.grounding import Entries, Grounding
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.types import Score

KINDS = ("mis_cls", "hallu_cls", "corr_grd", "part_grd", "other_err")
SHAPES = ("partial", "enlarged", "deviated")

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Record:
    """One scored noun, with all that is needed to show it."""

    id: str  # image or segment
    caption: int  # which reference caption of it
    label: str  # the object class
    kind: str  # one of KINDS
    shape: str  # one of SHAPES where the grounding is wrong, else ""
    token: int  # its place in the predicted caption, -1 where the caption does not have it
    reference_token: int  # its place in the reference caption, -1 where it is not there
    overlap: float  # IoU; -1 where there is nothing to compare
    predicted: tuple[Box, ...]  # one box per frame
    truth: tuple[Box, ...]
    frames: tuple[int, ...]  # of the true boxes


@dataclass(frozen=True)
class Analysis:
    """Shares of the kinds, with statistics; every record; the upper bound."""

    grounding: Grounding
    counts: Array  # (items, 5)
    shapes: dict[str, float]  # shares of the wrong groundings
    upper_bound: dict[str, dict[str, float]]  # the scores if partial groundings were right

    def statistics(self) -> dict[str, Statistics]:
        fields = {"iou": f"{self.grounding.threshold:g}", **self.grounding.fields}
        return {
            kind: Statistics(
                kind, signature(kind, **fields), self.grounding.items, self.counts, partial(_share, column=column)
            )
            for column, kind in enumerate(KINDS)
        }

    def figures(self) -> list[Score]:
        """Shares of the shapes of wrong groundings, and F1 if partial groundings were right: figure 2, section 4.5."""
        n, fields = len(self.grounding.items), {"iou": f"{self.grounding.threshold:g}", **self.grounding.fields}
        values = self.shapes | {f"f1_{mode} upper bound": self.upper_bound[mode]["f1"] for mode in ("all", "loc")}
        return [Score(name, value, n, signature(name, **fields, n=n)) for name, value in values.items()]

    def to_dict(self) -> dict[str, Any]:
        shares = {kind: s.score().value for kind, s in self.statistics().items()}
        return {"kinds": shares, "shapes": self.shapes, "upper_bound": self.upper_bound}

    def records(self) -> Iterator[Record]:
        """Every scored noun, in the order of items and captions."""
        grounding = self.grounding
        caption_of, seen = [], dict.fromkeys(range(len(grounding.items)), 0)
        for item in grounding.item_of.tolist():
            caption_of.append(seen[item])
            seen[item] += 1
        rows = [(entries, kind, i) for entries, kind in _scored(grounding) for i in range(len(kind)) if kind[i] >= 0]
        for entries, kind, i in sorted(rows, key=lambda row: int(row[0].sentence[row[2]])):
            yield _record(grounding, entries, i, int(kind[i]), caption_of[int(entries.sentence[i])])


def analyse(grounding: Grounding) -> Analysis:
    """Sort the predicted and the annotated words into the five kinds."""
    counts = np.zeros((len(grounding.items), len(KINDS)))
    for entries, kind in _scored(grounding):
        known = kind >= 0
        np.add.at(counts, (grounding.item_of[entries.sentence[known]], kind[known]), 1)
    predicted = grounding.precision
    wrong = predicted.shared & ~predicted.hits(grounding.threshold)
    named = [_shape(predicted, i) for i in np.flatnonzero(wrong).tolist()]
    total = max(1, len(named))
    return Analysis(
        grounding=grounding,
        counts=counts,
        shapes={shape: named.count(shape) / total for shape in SHAPES},
        upper_bound=replace(
            grounding, precision=_forgiven(grounding.precision), recall=_forgiven(grounding.recall)
        ).to_dict(),
    )


def per_class(grounding: Grounding) -> dict[str, dict[str, Any]]:
    """class -> hits, words and F1 of precision and recall, in "all" and in "loc"; classes that F1 averages first."""
    present = {grounding.labels[i] for i in np.unique(grounding.present[:, 1])}
    tallies = {
        mode: [
            entries.tally(grounding.threshold, grounding.labels, loc=mode == "loc")
            for entries in (grounding.precision, grounding.recall)
        ]
        for mode in ("all", "loc")
    }
    others = {name for pair in tallies.values() for tally in pair for name in tally} - present
    return {
        name: {mode: _class_scores(*(tally.get(name, (0, 0)) for tally in pair)) for mode, pair in tallies.items()}
        for name in (*sorted(present), *sorted(others))
    }


def _class_scores(precision: tuple[int, int], recall: tuple[int, int]) -> dict[str, Any]:
    """Of one class: hits and words of precision and of recall, and F1."""
    p, r = (hits / max(1, words) for hits, words in (precision, recall))
    return {"precision": [*precision], "recall": [*recall], "f1": 2 * p * r / (p + r) if p + r else 0.0}


def by_frequency(grounding: Grounding, frequency: Mapping[str, int], groups: int = 10) -> list[dict[str, Any]]:
    """Mean F1 of the classes in each of `groups` equal groups, from the most to the least frequent in training."""
    present = [grounding.labels[i] for i in np.unique(grounding.present[:, 1])]
    names = sorted(present, key=lambda name: (-frequency.get(name, 0), name))
    table = per_class(grounding)
    rows = []
    for group in np.array_split(np.array(names, object), min(groups, max(1, len(names)))):
        means = {
            f"f1_{mode}": float(np.mean([table[name][mode]["f1"] for name in group])) if len(group) else float("nan")
            for mode in ("all", "loc")
        }
        count = float(np.mean([frequency.get(name, 0) for name in group])) if len(group) else 0.0
        rows.append({"classes": list(group), "frequency": count, **means})
    return rows


def _scored(grounding: Grounding) -> tuple[tuple[Entries, Any], tuple[Entries, Any]]:
    """Precision and recall entries with the kind of each, as its place in KINDS; -1: counted on the other side."""
    predicted, asked = grounding.precision, grounding.recall
    grounded = np.where(predicted.hits(grounding.threshold), 2, np.where(predicted.inside, 3, 4))
    return (predicted, np.where(predicted.shared, grounded, 1)), (asked, np.where(asked.predicted < 0, 0, -1))


def _shape(entries: Entries, i: int) -> str:
    return SHAPES[0] if entries.inside[i] else SHAPES[1] if entries.around[i] else SHAPES[2]


def _forgiven(entries: Entries) -> Entries:
    return replace(entries, overlap=np.where(entries.inside, np.float32(1), entries.overlap))


def _record(grounding: Grounding, entries: Entries, i: int, kind: int, caption: int) -> Record:
    s, k, w = int(entries.sentence[i]), int(entries.predicted[i]), int(entries.reference[i])
    sentence, pointing = grounding.sentences[s], grounding.pointings[s]
    word = sentence.words[w] if w >= 0 else None
    rows = list(word.rows) if word else []
    return Record(
        id=sentence.item,
        caption=caption,
        label=grounding.labels[int(entries.label[i])],
        kind=KINDS[kind],
        shape=_shape(entries, i) if kind in (3, 4) else "",
        token=pointing.indices[k] if pointing is not None and k >= 0 else -1,
        reference_token=word.index if word else -1,
        overlap=float(entries.overlap[i]),
        predicted=_boxes(pointing.boxes[k]) if pointing is not None and k >= 0 else (),
        truth=_boxes(sentence.boxes[rows]),
        frames=tuple(sentence.frames[rows].tolist()),
    )


def _boxes(array: Any) -> tuple[Box, ...]:
    return tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in array)


def _share(sums: Array, column: int) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., column] / sums.sum(-1))
