"""Everything at once, on our own nouns: captions with links against examples with phrases.

Texts are scored by the caption metrics; links by the rules of Flickr30k-Entities (images) or ActivityNet-Entities
(videos), with the head words of the gold phrases as annotated words and their labels as classes. Our boxes are
continuous, those rules count whole pixels with both ends included, so right and bottom lose 1 on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.metrics import bleu, cider, errors, rouge
from groundling.metrics.grounding import Grounding, Pointing, Sentence, Word, judge_generated
from groundling.metrics.ngrams import Corpus, Numbers
from groundling.metrics.overlap import Boxes
from groundling.metrics.significance import Interval, intervals
from groundling.metrics.statistics import Statistics, mean_statistics, signature
from groundling.text.morphology import lemma_of
from groundling.text.ptb import tokenize
from groundling.types import Box, Example, GroundedCaption, Phrase, Score

Tokens = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Evaluation:
    """Scores with their signatures and, where grounding was judged, classes, errors and the way to every image."""

    statistics: tuple[Statistics, ...]
    intervals: tuple[Interval, ...] = ()  # in the order of `statistics`; empty without a bootstrap
    grounding: Grounding | None = None
    per_class: Mapping[str, Any] | None = None
    by_frequency: Sequence[Mapping[str, Any]] | None = None
    errors: errors.Analysis | None = None

    @property
    def scores(self) -> list[Score]:
        return [statistics.score() for statistics in self.statistics]

    def to_dict(self, records: bool = True) -> dict[str, Any]:
        """Plain JSON; NaN is null. `records` are the judged words, one object each: see `errors.Record`."""
        whole: dict[str, Any] = {"scores": [asdict(score) for score in self.scores]}
        for score, interval in zip(whole["scores"], self.intervals, strict=False):
            score["interval"] = [interval.low, interval.high]
        if self.errors is not None:
            whole["errors"] = self.errors.to_dict()
            whole["per_class"] = dict(self.per_class or {})
            whole["by_frequency"] = list(self.by_frequency or ())
            if records:
                whole["records"] = [asdict(record) for record in self.errors.records()]
        plain: dict[str, Any] = finite(whole)
        return plain


def evaluate(
    captions: Sequence[GroundedCaption],
    examples: Sequence[Example],
    *,
    texts: bool = True,
    links: bool = True,
    class_of: Mapping[str, str] | None = None,
    frequency: Mapping[str, int] | None = None,
    iou: float = 0.5,
    bootstrap: int = 0,
    seed: int = 0,
    fields: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score one caption for each example.

    `texts`: score the texts. `links`: judge the links, which takes gold phrases with labels. `class_of`: word -> class of
    what is said; by default a word belongs to the class with its lemma. `frequency`: how often each class is annotated in training, for
    the scores by frequency. `bootstrap`: how many resamples the confidence intervals take. `fields`: data and split,
    for the signatures.
    """
    said = paired(captions, examples)
    fields = dict(fields or {})
    statistics = caption_statistics(said, examples, fields) if texts else []
    grounding = ground_examples(said, examples, class_of, iou, fields) if links else None
    analysis = None
    if grounding is not None:
        statistics += [one for group in grounding.statistics().values() for one in group.values()]
        analysis = errors.analyse(grounding)
        statistics += analysis.statistics().values()
    return Evaluation(
        statistics=tuple(statistics),
        intervals=tuple(intervals(statistics, bootstrap, seed=seed)) if bootstrap else (),
        grounding=grounding,
        per_class=None if grounding is None else errors.per_class(grounding),
        by_frequency=None if grounding is None else errors.by_frequency(grounding, frequency or {}),
        errors=analysis,
    )


def paired(captions: Sequence[GroundedCaption], examples: Sequence[Example]) -> list[GroundedCaption]:
    """The caption of each example, in order; DataError where one is missing, given twice, or of an unknown image."""
    by_id: dict[str, GroundedCaption] = {}
    for caption in captions:
        if caption.id in by_id:
            raise DataError(f"image {caption.id!r} has two captions; keep one")
        by_id[caption.id] = caption
    known = {example.id for example in examples}
    if unknown := [item for item in by_id if item not in known]:
        raise DataError(
            f"{len(unknown)} of {len(by_id)} captions are of images that are not in this data, such as {unknown[0]!r}; "
            "choose their split, or leave them out"
        )
    if missing := [example.id for example in examples if example.id not in by_id]:
        raise DataError(
            f"{len(missing)} of {len(examples)} images have no caption, such as {missing[0]!r}; caption them all, or "
            "choose the split that was captioned"
        )
    return [by_id[example.id] for example in examples]


# ---------------------------------------------------------------- texts


def caption_statistics(
    said: Sequence[GroundedCaption], examples: Sequence[Example], fields: Mapping[str, Any]
) -> list[Statistics]:
    """BLEU-1 to 4, ROUGE-L and CIDEr-D with the document frequencies of these references, on Penn Treebank tokens."""
    if mute := [example.id for example in examples if not example.captions]:
        raise DataError(f"{len(mute)} images have no reference caption, such as {mute[0]!r}; texts cannot be scored")
    ids = tuple(example.id for example in examples)
    hypotheses = [tokenize(caption.text) for caption in said]
    references = [[tokenize(caption.text) for caption in example.captions] for example in examples]
    fields = {**fields, "tok": "ptb-3.4.1"}
    counts = bleu.counts(Corpus.of(hypotheses, references, Numbers()))
    found = [
        Statistics(f"BLEU-{k}", signature(f"bleu-{k}", **fields), ids, counts, partial(bleu.bleu, order=k))
        for k in range(1, 5)
    ]
    found.append(mean_statistics("ROUGE-L", signature("rouge-l", **fields), ids, rouge.rouge_l(hypotheses, references)))
    name = signature("cider-d", df="corpus", **fields)
    found.append(mean_statistics("CIDEr-D", name, ids, cider.cider_d(hypotheses, references)))
    return found


# ---------------------------------------------------------------- links


def ground_examples(
    said: Sequence[GroundedCaption],
    examples: Sequence[Example],
    class_of: Mapping[str, str] | None,
    iou: float,
    fields: Mapping[str, Any],
) -> Grounding:
    """The grounding of `said[i]` against the phrases of `examples[i]`."""
    labels = {phrase.label for example in examples for phrase in example.gold if phrase.label and phrase.boxes}
    if not labels:
        raise DataError("no phrase of this data has a box and a class, so grounding cannot be scored; leave it out")
    if class_of is None:
        by_lemma = {lemma_of(label): label for label in sorted(labels)}
        find: Callable[[str], str | None] = lambda word: by_lemma.get(lemma_of(word))  # noqa: E731
    else:
        find = class_of.get
    video = any(phrase.frames for example in examples for phrase in example.gold)
    frames = 1 + max((link.frame for caption in said for link in caption.links), default=0) if video else 1
    sentences: list[Sentence] = []
    pointings: list[Pointing | None] = []
    handed_in: dict[str, int] = {}
    for caption, example in zip(said, examples, strict=True):
        pointing = _pointing(caption, find, frames)
        for index in range(len(example.captions)):
            sentence = _sentence(example, index, video)
            handed_in[example.id] = handed_in.get(example.id, 0) + 1
            if sentence.words or not video:  # in videos nothing is judged where nothing is annotated
                sentences.append(sentence)
                pointings.append(pointing)
    named = {**fields, "rules": "activitynet-entities" if video else "flickr30k-entities", "lemma": "groundling"}
    return judge_generated(sentences, pointings, lemma_of, iou, handed_in, named)


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


def _pointing(caption: GroundedCaption, find: Callable[[str], str | None], frames: int) -> Pointing:
    """The words with links whose class is known, in order; a frame without a link has no box."""
    places: dict[int, dict[int, Box]] = {}
    for link in caption.links:
        places.setdefault(link.token, {}).setdefault(link.frame if frames > 1 else 0, link.box)
    labels, indices, boxes = [], [], []
    for token, in_frame in sorted(places.items()):
        if not 0 <= token < len(caption.tokens):
            raise DataError(f"image {caption.id!r}: a link points to word {token} of {len(caption.tokens)}")
        if label := find(caption.tokens[token]):
            labels.append(label)
            indices.append(token)
            boxes.append([in_frame.get(frame, (np.nan,) * 4) for frame in range(frames)])
    array = _inclusive([box for word in boxes for box in word]).reshape(len(labels), frames, 4)
    return Pointing(tuple(labels), tuple(indices), array)


def _inclusive(boxes: Sequence[Box]) -> Boxes:
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
