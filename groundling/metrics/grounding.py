"""Do the words of a caption have the right boxes? What the image and the video evaluator have in common.

A reference `Sentence` has annotated words, each with a class and boxes; a `Pointing` is what a system predicts for it:
words with classes and one box in each frame. On generated sentences the system chose the words itself, so there are two
questions: are its boxes right (precision), and how much of the reference did it find (recall)? Two ways to count:
"all" counts every word of both sentences, "loc" only the words that both have.
On reference (ground-truth) sentences the words are the same and there is one question.

Every scored word is an entry of `Entries`. Class averages and per-sentence averages are functions of sums over items
(images, or segments of videos), so `Grounding.statistics` gives all of them to the bootstrap.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.overlap import Boxes, contains, iou
from groundling.metrics.statistics import Array, Sparse, Statistics, signature

Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Word:
    """An annotated word of a reference."""

    index: int  # its place among the tokens
    label: str  # its class
    rows: tuple[int, ...]  # its boxes, in Sentence.boxes


@dataclass(frozen=True, slots=True)
class Sentence:
    """One reference caption of an image, or the caption of one segment of a video."""

    item: str  # the image or segment
    tokens: tuple[str, ...]
    words: tuple[Word, ...]
    boxes: Boxes  # (n, 4)
    frames: Ints  # (n,), 0 for an image
    targets: Mapping[
        str, int
    ]  # class -> place in `words` of the one that predictions of it are compared with, the first


@dataclass(frozen=True, slots=True)
class Pointing:
    """What a system points at in one sentence."""

    labels: tuple[str, ...]
    indices: tuple[int, ...]  # the words' places in the system's sentence
    boxes: Boxes  # (words, frames, 4)


@dataclass(frozen=True)
class Entries:
    """Scored words, one row each. A word is a hit where its best overlap exceeds the threshold."""

    sentence: Ints
    label: Ints
    shared: NDArray[np.bool_]  # counts in "loc" also
    predicted: Ints  # its index in Pointing.labels, -1 where the caption does not have it
    reference: Ints  # its place in Sentence.words, -1 where it is not annotated
    overlap: NDArray[np.float32]  # best of its pairs of boxes; -1 without any
    inside: NDArray[np.bool_]  # is a predicted box contained in a true one?
    around: NDArray[np.bool_]  # does it contain one?

    def hits(self, threshold: float) -> NDArray[np.bool_]:
        return np.asarray(self.overlap > np.float32(threshold))

    def tally(self, threshold: float, labels: Sequence[str], loc: bool) -> dict[str, tuple[int, int]]:
        """class -> (hits, words) for every class that has a word."""
        keep = self.shared if loc else np.ones_like(self.shared)
        count = np.bincount(self.label[keep], minlength=len(labels))
        hits = np.bincount(self.label[keep & self.hits(threshold)], minlength=len(labels))
        return {name: (int(hits[i]), int(count[i])) for i, name in enumerate(labels) if count[i]}


class _Comparisons:
    """Collects the words to score and the pairs of boxes that decide; all overlaps are then computed at once."""

    def __init__(self, sentences: Sequence[Sentence], pointings: Sequence[Pointing | None]) -> None:
        self.sentences, self.pointings = sentences, pointings
        self.offsets = np.cumsum([0, *(len(s.boxes) for s in sentences)]).tolist()
        self.truth = _concatenated([s.boxes for s in sentences], (0, 4))
        self.frames = np.concatenate([np.zeros(0, np.intp), *(s.frames for s in sentences)])
        unique = {id(p): p for p in pointings if p is not None}
        self.predicted = _concatenated([p.boxes for p in unique.values()], (0, 1, 4))
        starts = np.cumsum([0, *(len(p.boxes) for p in unique.values())]).tolist()
        self.start = dict(zip(unique, starts, strict=False))
        self.words = array("q")  # five numbers each: sentence, label, shared, predicted, reference
        self.pairs = array("q")  # three: word, row of `predicted`, row of `truth`

    def add(self, sentence: int, label: int, shared: bool, predicted: int, reference: int) -> None:
        """A word to score: by the box of the `predicted`-th word pointed at, if it also is an annotated word."""
        if predicted >= 0 and reference >= 0:
            entry, offset = len(self.words) // 5, self.offsets[sentence]
            k = self.start[id(self.pointings[sentence])] + predicted
            for row in self.sentences[sentence].words[reference].rows:
                self.pairs.extend((entry, k, offset + row))
        self.words.extend((sentence, label, shared, predicted, reference))

    def entries(self) -> Entries:
        sentence, label, shared, pointed, reference = np.array(self.words, np.intp).reshape(-1, 5).T.copy()
        entry, k, m = np.array(self.pairs, np.intp).reshape(-1, 3).T
        seen = (self.frames[m] >= 0) & (self.frames[m] < self.predicted.shape[1])
        entry, k, m = entry[seen], k[seen], m[seen]
        predicted, truth = self.predicted[k, self.frames[m]], self.truth[m]
        overlap = np.full(len(sentence), -1, np.float32)
        np.fmax.at(overlap, entry, iou(predicted, truth))
        inside, around = np.zeros((2, len(sentence)), bool)
        inside[entry[contains(truth, predicted)]] = True
        around[entry[contains(predicted, truth)]] = True
        return Entries(sentence, label, shared.astype(bool), pointed, reference, overlap, inside, around)


@dataclass(frozen=True)
class Grounding:
    """Everything that the scores of generated sentences are made of."""

    sentences: tuple[Sentence, ...]
    pointings: tuple[Pointing | None, ...]
    items: tuple[str, ...]
    labels: tuple[str, ...]
    threshold: float
    item_of: Ints  # (sentences,)
    scored: NDArray[np.bool_]  # (sentences,) annotated and predicted: those that per-sentence scores average
    precision: Entries
    recall: Entries
    present: Ints  # (z, 2) item, class: the classes of each sentence that has a prediction
    submitted: Ints  # (items,) how many sentences the system handed in for each item
    extra: int  # and for no item here: they lower per-sentence scores
    fields: Mapping[str, Any] = field(default_factory=dict)  # for signatures: dataset, split, lemmatiser

    @cached_property
    def _class_rows(self) -> Sparse:
        """(items, 7 C): for each class hits, words, shared words of precision; the same of recall; is it present?

        The C classes are those of the references, by name, so that rows of two systems on the same references can be
        mixed. Other classes never hit and are not averaged.
        """
        classes = sorted({name for sentence in self.sentences for name in sentence.targets})
        column_of = {name: c for c, name in enumerate(classes)}
        column = np.array([column_of.get(name, -1) for name in self.labels], np.intp)
        blocks = [(self.present[:, 0], self.present[:, 1], 6)]
        for entries, first in ((self.precision, 0), (self.recall, 3)):
            item, hits = self.item_of[entries.sentence], entries.hits(self.threshold)
            for keep, block in ((hits, first), (np.ones_like(hits), first + 1), (entries.shared, first + 2)):
                blocks.append((item[keep], entries.label[keep], block))
        return counted(
            np.concatenate([item for item, _, _ in blocks]),
            np.concatenate([np.where(column[at] < 0, -1, column[at] + b * len(classes)) for _, at, b in blocks]),
            (len(self.items), 7 * len(classes)),
        )

    @property
    def _used(self) -> list[int]:
        """The classes that scores average."""
        return [int(i) for i in np.unique(self.present[:, 1])]

    @cached_property
    def _sentence_rows(self) -> Array:
        """(items, 8): sums of precision, recall, F1 over its sentences and their number, in "all" and then in "loc"."""
        blocks = []
        for loc in (False, True):
            hits_p, n_p = self._per_sentence(self.precision, loc)
            hits_r, n_r = self._per_sentence(self.recall, loc)
            with np.errstate(invalid="ignore", divide="ignore"):
                p, r = np.where(n_p > 0, hits_p / n_p, 0.0), np.where(n_r > 0, hits_r / n_r, 0.0)
                f = np.where(p + r > 0, 2 * p * r / (p + r), 0.0)
            skipped = self.scored & (n_r == 0)
            for value in (p, r, f):
                averaged = value * (self.scored & ~skipped)
                blocks.append(np.bincount(self.item_of, averaged, minlength=len(self.items)))
            blocks.append(self.submitted - np.bincount(self.item_of, skipped, minlength=len(self.items)))
        return np.stack(blocks, axis=1)

    def _per_sentence(self, entries: Entries, loc: bool) -> tuple[Array, Array]:
        keep = entries.shared if loc else np.ones_like(entries.shared)
        n = len(self.item_of)
        hits = np.bincount(entries.sentence[keep], entries.hits(self.threshold)[keep], minlength=n)
        return hits.astype(float), np.bincount(entries.sentence[keep], minlength=n).astype(float)

    def statistics(self) -> dict[str, dict[str, Statistics]]:
        """{"all": {"precision": ..., "recall": ..., "f1": ..., "precision_per_sent": ..., ...}, "loc": {...}}"""
        made: dict[str, dict[str, Statistics]] = {}
        for m, mode in enumerate(("all", "loc")):
            rules: dict[str, tuple[Array | Sparse, Callable[[Array], Array]]] = {
                "precision": (self._class_rows, partial(_class_average, hits=0, count=1 + m)),
                "recall": (self._class_rows, partial(_class_average, hits=3, count=4 + m)),
                "f1": (self._class_rows, partial(_class_f1, mode=m)),
            }
            for i, name in enumerate(("precision", "recall", "f1")):
                combine = partial(_sentence_average, column=4 * m + i, extra=self.extra)
                rules[f"{name}_per_sent"] = self._sentence_rows, combine
            made[mode] = {
                name: Statistics(f"{name}_{mode}", self._signature(f"{name}_{mode}"), self.items, values, combine)
                for name, (values, combine) in rules.items()
            }
        return made

    def _signature(self, name: str) -> str:
        return signature(name, **{"iou": f"{self.threshold:g}", "text": "generated", **self.fields})

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The scores alone, named as the official evaluators name them."""
        return {
            mode: {name: s.score().value for name, s in group.items()} | {"num_classes": len(self._used)}
            for mode, group in self.statistics().items()
        }


@dataclass(frozen=True)
class ReferenceGrounding:
    """Everything that the accuracy on reference (ground-truth) sentences is made of."""

    items: tuple[str, ...]
    labels: tuple[str, ...]
    threshold: float
    item_of: Ints
    words: Entries
    fields: Mapping[str, Any] = field(default_factory=dict)

    def statistics(self) -> dict[str, Statistics]:
        item, hits, c = self.item_of[self.words.sentence], self.words.hits(self.threshold), len(self.labels)
        column = np.argsort(np.argsort(np.array(self.labels)))[self.words.label]  # by name, as in Grounding
        values = counted(
            np.concatenate([item[hits], item]), np.concatenate([column[hits], column + c]), (len(self.items), 2 * c)
        )
        name = signature("accuracy", **{"iou": f"{self.threshold:g}", "text": "given", **self.fields})
        return {"accuracy": Statistics("accuracy", name, self.items, values, _accuracy)}

    def by_class(self) -> dict[str, tuple[int, int]]:
        """class -> (words in the right place, words), the most frequent class first."""
        tally = self.words.tally(self.threshold, self.labels, loc=False)
        return dict(sorted(tally.items(), key=lambda item: (-item[1][1], item[0])))

    def to_dict(self) -> dict[str, float]:
        return {name: s.score().value for name, s in self.statistics().items()}


def evaluate_generated(
    sentences: Sequence[Sentence],
    pointings: Sequence[Pointing | None],
    lemma: Callable[[str], str],
    threshold: float,
    handed_in: Mapping[str, int],
    fields: Mapping[str, Any],
) -> Grounding:
    """Score what a system points at in its own sentences; `pointings[i]` is its prediction for `sentences[i]`, or None.

    Precision, per predicted word: the class is annotated -> compared with the first word of that class; the class is
    the lemma of a word that nobody annotated -> excused; else wrong, in "all" only.
    Recall, per annotated word: no prediction -> miss; the class is predicted -> its first box is compared; else a
    miss, in "all" only. `handed_in` counts the system's sentences by item, those without a reference included.
    """
    lemma = cache(lemma)
    labels, items = _Numbers(), _Numbers()
    precision, recall = _Comparisons(sentences, pointings), _Comparisons(sentences, pointings)
    present = []
    for s, (sentence, pointing) in enumerate(zip(sentences, pointings, strict=True)):
        item = items[sentence.item]
        first: dict[str, int] = {}
        if pointing is not None:
            present += [(item, labels[name]) for name in sentence.targets]
            excused: set[str] | None = None
            for k, name in enumerate(pointing.labels):
                first.setdefault(name, k)
                if name in sentence.targets:
                    precision.add(s, labels[name], True, predicted=k, reference=sentence.targets[name])
                    continue
                if excused is None:
                    excused = _unannotated_lemmas(sentence, lemma)
                if lemma(name) not in excused:
                    precision.add(s, labels[name], False, predicted=k, reference=-1)
        for w, word in enumerate(sentence.words):
            k = first.get(word.label, -1)
            recall.add(s, labels[word.label], pointing is None or k >= 0, predicted=k, reference=w)
    counted = np.array([handed_in.get(item, 0) for item in items], np.intp)
    return Grounding(
        sentences=tuple(sentences),
        pointings=tuple(pointings),
        items=tuple(items),
        labels=tuple(labels),
        threshold=threshold,
        item_of=np.array([items[s.item] for s in sentences], np.intp),
        scored=np.array([len(s.boxes) > 0 and p is not None for s, p in zip(sentences, pointings, strict=True)], bool),
        precision=precision.entries(),
        recall=recall.entries(),
        present=np.array(present, np.intp).reshape(-1, 2),
        submitted=counted,
        extra=sum(handed_in.values()) - int(counted.sum()),
        fields=fields,
    )


def evaluate_reference(
    sentences: Sequence[Sentence], pointings: Sequence[Pointing | None], threshold: float, fields: Mapping[str, Any]
) -> ReferenceGrounding:
    """Score what a system points at in the reference's own words; a word that it leaves out is a miss."""
    labels, items = _Numbers(), _Numbers()
    comparisons = _Comparisons(sentences, pointings)
    for s, (sentence, pointing) in enumerate(zip(sentences, pointings, strict=True)):
        for w, word in enumerate(sentence.words):
            pointed = pointing is not None and word.index in pointing.indices
            k = pointing.indices.index(word.index) if pointing is not None and pointed else -1
            comparisons.add(s, labels[word.label], True, predicted=k, reference=w)
    item_of = np.array([items[s.item] for s in sentences], np.intp)
    return ReferenceGrounding(tuple(items), tuple(labels), threshold, item_of, comparisons.entries(), fields)


def _unannotated_lemmas(sentence: Sentence, lemma: Callable[[str], str]) -> set[str]:
    annotated = {word.index for word in sentence.words}
    return {lemma(token) for i, token in enumerate(sentence.tokens) if token and i not in annotated}


def _block(sums: Array, i: int) -> Array:
    c = sums.shape[-1] // 7
    return sums[..., i * c : (i + 1) * c]


def _class_average(sums: Array, hits: int, count: int) -> Array:
    """Sum over classes of hits / words, divided by the number of classes that are present."""
    n = _block(sums, count)
    ratio = np.divide(_block(sums, hits), n, out=np.zeros_like(n), where=n > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(ratio.sum(-1) / (_block(sums, 6) > 0).sum(-1))


def _class_f1(sums: Array, mode: int) -> Array:
    p, r = _class_average(sums, hits=0, count=1 + mode), _class_average(sums, hits=3, count=4 + mode)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(2 * p * r / (p + r))


def _sentence_average(sums: Array, column: int, extra: int) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., column] / (sums[..., column - column % 4 + 3] + extra))


def _accuracy(sums: Array) -> Array:
    hits, n = np.split(sums, 2, axis=-1)
    ratio = np.divide(hits, n, out=np.zeros_like(n), where=n > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(ratio.sum(-1) / (n > 0).sum(-1))


def counted(row: Ints, column: Ints, shape: tuple[int, int]) -> Sparse:
    """How often each place occurs; a column of -1 is left out."""
    keep = column >= 0
    cell, count = np.unique(row[keep] * shape[1] + column[keep], return_counts=True)
    return Sparse(cell // max(1, shape[1]), cell % max(1, shape[1]), count.astype(float), shape)


class _Numbers(dict[str, int]):
    """Numbers names in order of first sight."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _concatenated(parts: list[Boxes], empty: tuple[int, ...]) -> Boxes:
    return np.concatenate(parts) if parts else np.zeros(empty, np.float32)
