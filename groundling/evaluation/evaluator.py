"""Scores captions of a data set: references and boxes are prepared once, then any number of systems are scored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from groundling.data import evaluator_files
from groundling.data.dataset import Dataset, load
from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.files import parse_json, read_lines, read_text
from groundling.metrics.evaluation import TEXT_METRICS, Evaluation, by_lemma, evaluate
from groundling.metrics.predictions import read_captions
from groundling.text import classes
from groundling.text.classes import groundable_words
from groundling.types import Example, GroundedCaption

log = logging.getLogger(__name__)


def score(
    pred: Path | str,
    data: Path | str,
    split: str | None = None,
    metrics: Sequence[str] = TEXT_METRICS,
    *,
    grounding: bool = False,
    iou: float = 0.5,
    bootstrap: int = 0,
    seed: int = 0,
    skip_bad: bool = False,
) -> Evaluation:
    """What `groundling score PRED --data DATA --split NAME` reports, by the same names."""
    system = read(pred)
    evaluator = evaluator_for([system], data, split, grounding=grounding, skip_bad=skip_bad)
    return evaluator(system.captions, metrics, iou=iou, bootstrap=bootstrap, seed=seed)


@dataclass(frozen=True)
class System:
    """The captions of one system. A grounding submission has only grounded words: its texts are not known."""

    captions: list[GroundedCaption]
    texts: bool


def read(path: Path | str) -> System:
    """Our JSON lines, COCO results, or a grounding submission of images or videos."""
    first = next((line for _, line in read_lines(path)), "").strip()
    if not first.startswith("{") or '"caption"' in first:
        return System(read_captions(path), texts=True)
    submission = parse_json(read_text(path), str(path))
    results = submission.get("results") if isinstance(submission, dict) else None
    videos = isinstance(results, dict) and any(isinstance(rows, dict) for rows in results.values())
    captions = evaluator_files.video_captions if videos else evaluator_files.image_captions
    return System(captions(submission, str(path)), texts=False)


def evaluator_for(
    systems: Sequence[System],
    data: Path | str,
    split: str | None = None,
    *,
    grounding: bool = False,
    skip_bad: bool = False,
) -> CaptionEvaluator:
    """Evaluates texts if those of all systems are known, links if all have some; with `grounding` they must."""
    texts = all(system.texts for system in systems)
    pointing = all(any(caption.links for caption in system.captions) for system in systems)
    if grounding and not pointing:
        raise GroundlingError("--grounding: these captions have no links; make them with `groundling caption`")
    if not pointing:
        log.info("these captions have no links: their texts alone are scored")
    try:
        evaluator = CaptionEvaluator.of(data, split, links=pointing, skip_bad=skip_bad)
    except MissingExtra as error:  # the classes of words are made with spaCy, where the data set names none
        if grounding or not texts:
            raise
        log.warning("links are not scored: %s", error)
        evaluator = CaptionEvaluator.of(data, split, links=False, skip_bad=skip_bad)
    evaluator = replace(evaluator, texts=texts)
    if grounding and not evaluator.links:
        raise GroundlingError(f"--grounding needs boxes, and {data} has none")
    if not evaluator.links and not texts:
        raise GroundlingError(f"a submission has no texts, and {data} no boxes, or others no links: nothing to score")
    return evaluator


@dataclass(frozen=True)
class CaptionEvaluator:
    """Called with the captions of a system, it evaluates them."""

    examples: tuple[Example, ...]
    fields: Mapping[str, str]  # data and split, for the signatures
    links: bool  # are the links scored?
    class_of: Callable[[str], str | None] | None = None  # word -> class, of all that there are in the data set
    frequency: Mapping[str, int] | None = None  # boxes of each class in training
    training: Collection[tuple[str, ...]] | None = None  # captions of the training split, where another one is scored
    texts: bool = True  # are the texts scored?

    @staticmethod
    def of(
        path: Path | str, split: str | None = None, *, links: bool = True, skip_bad: bool = False
    ) -> CaptionEvaluator:
        """Read a data set. `links`: also what grounding is scored by, where the data set has boxes.
        `skip_bad`: its bad items are left out.

        Classes are those that the data set names; where it names none, those that training makes of its phrases.
        """
        data = load(path, annotated=False, skip_bad=skip_bad)
        fields = {"data": data.name} | ({"split": split} if split else {})
        chosen = data.split(split) if split else data
        if not (links and any(phrase.boxes for example in chosen for phrase in example.gold)):
            return CaptionEvaluator(chosen.examples, fields, links=False, training=_training_captions(data, split))
        if any(phrase.label for example in chosen for phrase in example.gold):
            labels = {phrase.label for example in data for phrase in example.gold if phrase.label}
            frequency, captions_before = _frequency(_training(data)), _training_captions(data, split)
            return CaptionEvaluator(chosen.examples, fields, True, by_lemma(labels), frequency, captions_before)
        data = load(path, skip_bad=skip_bad)
        groundable = groundable_words(_training(data))
        chosen, training = data.split(split) if split else data, classes.label(_training(data), groundable)
        examples, captions_before = tuple(classes.label(chosen, groundable)), _training_captions(data, split)
        return CaptionEvaluator(examples, fields, True, groundable.class_of.get, _frequency(training), captions_before)

    def __call__(
        self,
        captions: Sequence[GroundedCaption],
        metrics: Sequence[str] = TEXT_METRICS,
        *,
        iou: float = 0.5,
        bootstrap: int = 0,
        seed: int = 0,
    ) -> Evaluation:
        """Texts by `metrics` (none: the texts are not scored), links at `iou`; see `metrics.evaluation.evaluate`."""
        known = {example.id for example in self.examples}
        metrics = metrics if self.texts else ()
        if metrics and (unknown := next((caption.id for caption in captions if caption.id not in known), None)):
            raise DataError(f"image {unknown!r} is not in {self._where()} that was captioned")
        return evaluate(
            [caption for caption in captions if caption.id in known],
            self.examples,
            metrics=metrics,
            links=self.links,
            class_of=self.class_of,
            frequency=self.frequency,
            training=self.training,
            iou=iou,
            bootstrap=bootstrap,
            seed=seed,
            fields=self.fields,
        )

    def _where(self) -> str:
        """Where the captions were sought, and what to name instead."""
        data, split = self.fields["data"], self.fields.get("split")
        return (
            f"the split {split!r} of {data}: name the split (--split)" if split else f"{data}: name the data (--data)"
        )


def _training(data: Dataset) -> Dataset:
    return data.split("train") if "train" in data.splits else data


def _training_captions(data: Dataset, split: str | None) -> set[tuple[str, ...]] | None:
    if split is None or split == "train" or "train" not in data.splits:
        return None
    return {caption.tokens for example in data.split("train") for caption in example.captions}


def _frequency(examples: Sequence[Example] | Dataset) -> dict[str, int]:
    count: dict[str, int] = {}
    for example in examples:
        for phrase in example.gold:
            if phrase.label:
                count[phrase.label] = count.get(phrase.label, 0) + len(phrase.boxes)
    return count
