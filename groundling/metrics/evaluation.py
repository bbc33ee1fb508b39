"""All scores at once: captions with links against examples with phrases.

Texts are scored by the caption metrics; links by the rules of Flickr30k-Entities (images) or ActivityNet-Entities
(videos), with the head words of the gold phrases as annotated words and their labels as classes. Our boxes are
continuous, those rules count whole pixels with both ends included, so right and bottom lose 1 on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics import errors
from groundling.metrics.captions import score_captions
from groundling.metrics.classification import Proposals, region_classification
from groundling.metrics.diversity import novel, score_diversity
from groundling.metrics.grounding import (
    Grounding,
    Pointing,
    ReferenceGrounding,
    Sentence,
    Word,
    evaluate_generated,
    evaluate_reference,
)
from groundling.metrics.overlap import Boxes
from groundling.metrics.pooled import pooled_statistics
from groundling.metrics.significance import Interval, intervals
from groundling.metrics.statistics import Statistics, html_scores, score_table, with_fields
from groundling.text.morphology import lemma_of
from groundling.types import Box, Example, GroundedCaption, Phrase, Score

TEXT_METRICS = ("bleu", "rouge", "cider-d")


@dataclass(frozen=True)
class Evaluation:
    """Scores with their signatures and, where grounding was scored, classes, errors and the way to every image."""

    statistics: tuple[Statistics, ...]
    intervals: tuple[Interval, ...] = ()  # in the order of `statistics`; empty without a bootstrap
    grounding: Grounding | None = None
    per_class: Mapping[str, Any] | None = None
    by_frequency: Sequence[Mapping[str, Any]] | None = None
    errors: errors.Analysis | None = None
    diversity: tuple[Score, ...] = ()  # counts of different words: no function of sums over items, so no intervals

    @property
    def scores(self) -> list[Score]:
        return [*(statistics.score() for statistics in self.statistics), *self.diversity]

    def __str__(self) -> str:
        return score_table(self.scores)

    def _repr_html_(self) -> str:
        return html_scores(self.scores)

    def to_dict(self, records: bool = True) -> dict[str, Any]:
        """Plain JSON; NaN is null. `records` are the scored words, one object each: see `errors.Record`."""
        row: dict[str, Any] = {"scores": [asdict(score) for score in self.scores]}
        for score, interval in zip(row["scores"], self.intervals, strict=False):
            score["interval"] = [interval.low, interval.high]
        if self.errors is not None:
            row["errors"] = self.errors.to_dict()
            row["per_class"] = dict(self.per_class or {})
            row["by_frequency"] = list(self.by_frequency or ())
            if records:
                row["records"] = [asdict(record) for record in self.errors.records()]
        plain: dict[str, Any] = finite(row)
        return plain


def evaluate(
    captions: Sequence[GroundedCaption],
    examples: Sequence[Example],
    *,
    metrics: Sequence[str] = TEXT_METRICS,
    links: bool = True,
    class_of: Callable[[str], str | None] | None = None,
    frequency: Mapping[str, int] | None = None,
    training: Collection[Sequence[str]] | None = None,
    iou: float = 0.5,
    bootstrap: int = 0,
    seed: int = 0,
    fields: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score captions, one for each example. Where one is missing, texts leave the image out and links miss it.

    `metrics`: those of the texts, by the names of `metrics.captions`; none, to leave the texts out. `links`: score the
    links, which takes gold phrases with labels. `class_of`: word of the caption -> class; by default a word belongs to
    the class with its lemma. `frequency`: how often each class is annotated in training, for the scores by frequency.
    `training`: the words of each caption of the training set, for the share of novel captions.
    `bootstrap`: how many resamples the confidence intervals take. `fields`: data and split, for the signatures.
    """
    caption_of = by_id(captions, examples)
    fields = dict(fields or {})
    statistics = _texts(caption_of, examples, metrics, fields) if metrics else []
    grounding = ground_examples(caption_of, examples, class_of, iou, fields) if links else None
    analysis = None
    if grounding is not None:
        statistics += [one for group in grounding.statistics().values() for one in group.values()]
        statistics += pooled_statistics(grounding).values()
        analysis = errors.analyse(grounding)
        statistics += analysis.statistics().values()
    words = {image: caption.tokens for image, caption in caption_of.items()}
    if metrics and training is not None:
        novelty = novel(list(words.values()), training, list(words))
        statistics.append(replace(novelty, signature=with_fields(novelty.signature, **fields)))
    return Evaluation(
        statistics=tuple(statistics),
        intervals=tuple(intervals(statistics, bootstrap, seed=seed)) if bootstrap else (),
        grounding=grounding,
        per_class=None if grounding is None else errors.per_class(grounding),
        by_frequency=None if grounding is None else errors.by_frequency(grounding, frequency or {}),
        errors=analysis,
        diversity=_diversity(list(words.values()), fields) if metrics else (),
    )


def by_id(captions: Sequence[GroundedCaption], examples: Sequence[Example]) -> dict[str, GroundedCaption]:
    """The caption of each image; DataError where an image has two, or is not one of the examples."""
    known = {example.id for example in examples}
    caption_of: dict[str, GroundedCaption] = {}
    for caption in captions:
        if caption.id in caption_of:
            raise DataError(f"image {caption.id!r} has two captions; keep one")
        caption_of[caption.id] = caption
    if unknown := [image for image in caption_of if image not in known]:
        raise DataError(
            f"{len(unknown)} of {len(caption_of)} captions are of images that are not in this data, "
            f"such as {unknown[0]!r}; choose their split, or leave them out"
        )
    return caption_of


def _texts(
    caption_of: Mapping[str, GroundedCaption],
    examples: Sequence[Example],
    metrics: Sequence[str],
    fields: Mapping[str, Any],
) -> list[Statistics]:
    references = {example.id: [caption.text for caption in example.captions] for example in examples}
    texts = {example.id: caption_of[example.id].text for example in examples if example.id in caption_of}
    statistics = score_captions(texts, references, metrics)
    return [replace(s, signature=with_fields(s.signature, **fields)) for s in statistics]


def _diversity(captions: Sequence[Sequence[str]], fields: Mapping[str, Any]) -> tuple[Score, ...]:
    scores = score_diversity(captions)
    return tuple(replace(score, signature=with_fields(score.signature, **fields)) for score in scores)


# ---------------------------------------------------------------- links


def by_lemma(labels: Iterable[str]) -> Callable[[str], str | None]:
    """word -> the class that has the same lemma, if there is one."""
    classes = {lemma_of(label): label for label in sorted(labels)}
    return lambda word: classes.get(lemma_of(word))


def ground_examples(
    caption_of: Mapping[str, GroundedCaption],
    examples: Sequence[Example],
    class_of: Callable[[str], str | None] | None,
    iou: float,
    fields: Mapping[str, Any],
) -> Grounding:
    """The grounding of captions, by image, against the phrases of the examples."""
    labels = {phrase.label for example in examples for phrase in example.gold if phrase.label and phrase.boxes}
    if not labels:
        raise DataError("no phrase of this data has a box and a class, so grounding cannot be scored; leave it out")
    find = class_of or by_lemma(labels)
    video = any(phrase.frames for example in examples for phrase in example.gold)
    frames = 1 + max((frame for example in examples for phrase in example.gold for frame in phrase.frames), default=0)
    sentences: list[Sentence] = []
    pointings: list[Pointing | None] = []
    handed_in: dict[str, int] = {}
    for example in examples:
        pointing = _pointing(caption_of[example.id], find, video, frames) if example.id in caption_of else None
        if pointing is not None:
            handed_in[example.id] = len(example.captions)
        for index in range(len(example.captions)):
            sentence = _sentence(example, index, video)
            if sentence.words or not video:  # in videos nothing is scored where nothing is annotated
                sentences.append(sentence)
                pointings.append(pointing)
    named = {**fields, "rules": "activitynet-entities" if video else "flickr30k-entities", "lemma": "groundling"}
    return evaluate_generated(sentences, pointings, lemma_of, iou, handed_in, named)


def ground_given(
    boxes_of: Mapping[str, Sequence[NDArray[np.floating[Any]]]],
    examples: Sequence[Example],
    iou: float = 0.5,
    fields: Mapping[str, Any] | None = None,
) -> ReferenceGrounding:
    """Where a system places the words of the examples' own captions, against their phrases.

    `places[id][c]` (words, frames, 4) are boxes for each word of caption c, in the pixels of the example and NaN where
    there is none. A word without one, be it beyond the last or of an image that is missing, is missed.
    """
    if not any(phrase.label and phrase.boxes for example in examples for phrase in example.gold):
        raise DataError("no phrase of this data has a box and a class, so attention cannot be scored")
    video = any(phrase.frames for example in examples for phrase in example.gold)
    sentences: list[Sentence] = []
    pointings: list[Pointing | None] = []
    for example in examples:
        for index in range(len(example.captions)):
            sentence = _sentence(example, index, video)
            if video and not sentence.words:
                continue
            boxes = boxes_of[example.id][index] if example.id in boxes_of else np.zeros((0, 1, 4))
            known = [word for word in sentence.words if word.index < len(boxes)]
            chosen = _inclusive(boxes[[word.index for word in known]]).reshape(len(known), boxes.shape[1], 4)
            sentences.append(sentence)
            pointings.append(Pointing(tuple(w.label for w in known), tuple(w.index for w in known), chosen))
    rules = "activitynet-entities" if video else "flickr30k-entities"
    return evaluate_reference(sentences, pointings, iou, {**(fields or {}), "rules": rules})


def classify_examples(
    guesses: Mapping[str, tuple[NDArray[np.floating[Any]], Sequence[str], NDArray[np.intp]]],
    examples: Sequence[Example],
    iou: float = 0.5,
    fields: Mapping[str, Any] | None = None,
) -> Statistics:
    """Do the classes of regions fit what people drew there? See `metrics.classification`.

    `guesses[id]` are the boxes (R, 4) of the regions, in the pixels of the example, their likeliest classes and frames.
    """
    if not any(phrase.label and phrase.boxes for example in examples for phrase in example.gold):
        raise DataError("no phrase of this data has a box and a class, so classes of regions cannot be scored")
    video = any(phrase.frames for example in examples for phrase in example.gold)
    sentences = [_sentence(example, index, video) for example in examples for index in range(len(example.captions))]
    proposals = {
        name: Proposals(_inclusive(boxes), labels, frames if video else None)
        for name, (boxes, labels, frames) in guesses.items()
    }
    statistics = region_classification(proposals, sentences, iou)
    return replace(statistics, signature=with_fields(statistics.signature, **(fields or {})))


def _sentence(example: Example, index: int, video: bool) -> Sentence:
    """One reference caption. In an image the boxes of a word are merged into one; in a video each keeps its frame."""
    of_token: dict[int, list[Phrase]] = {}
    for phrase in example.gold:
        if phrase.caption == index and phrase.label and phrase.boxes and phrase.head >= 0:
            of_token.setdefault(phrase.head, []).append(phrase)
    words: list[Word] = []
    boxes: list[Box] = []
    frames: list[int] = []
    for token, phrases in sorted(of_token.items()):
        its_boxes = [box for phrase in phrases for box in phrase.boxes]
        its_frames = [frame for phrase in phrases for frame in phrase.frames]
        if not video:
            its_boxes, its_frames = [_around(its_boxes)], [0]
        rows = tuple(range(len(boxes), len(boxes) + len(its_boxes)))
        words.append(Word(token, phrases[0].label, rows))
        boxes += its_boxes
        frames += its_frames
    targets: dict[str, int] = {}
    for w, word in enumerate(words):
        targets.setdefault(word.label, w)
    tokens = example.captions[index].tokens
    return Sentence(example.id, tokens, tuple(words), _inclusive(boxes), np.array(frames, np.intp), targets)


def _pointing(caption: GroundedCaption, find: Callable[[str], str | None], video: bool, frames: int) -> Pointing:
    """The words with links whose class is known, in the order of the links; a frame without a link has no box.

    A word that is linked twice in one frame is pointed at twice, as in a submission to the official evaluators.
    `frames` are those of the truth: a link beyond them points at nothing that could be scored.
    """
    words: list[tuple[int, str, dict[int, Box]]] = []
    for link in caption.links:
        if link.frame < 0:
            raise DataError(f"image {caption.id!r}: a link points to frame {link.frame}; frames count from 0")
        if not 0 <= link.token < len(caption.tokens):
            raise DataError(f"image {caption.id!r}: a link points to word {link.token} of {len(caption.tokens)}")
        if label := find(caption.tokens[link.token]):
            frame = link.frame if video else 0
            free = (boxes for token, _, boxes in words if token == link.token and frame not in boxes)
            boxes = next(free, None)
            if boxes is None:
                words.append((link.token, label, boxes := {}))
            boxes[frame] = link.box
    nowhere = (np.nan,) * 4
    array = _inclusive([boxes.get(frame, nowhere) for _, _, boxes in words for frame in range(frames)])
    labels, indices = tuple(label for _, label, _ in words), tuple(token for token, _, _ in words)
    return Pointing(labels, indices, array.reshape(len(words), frames, 4))


def _inclusive(boxes: Sequence[Box] | NDArray[np.floating[Any]]) -> Boxes:
    return (np.array(boxes, float).reshape(-1, 4) - [0, 0, 1, 1]).astype(np.float32)


def _around(boxes: Sequence[Box]) -> Box:
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def finite(value: Any) -> Any:
    """The same with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value
