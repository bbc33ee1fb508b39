"""ActivityNet-Entities: grounding of video captions, as the official evaluator counts it.

A video has segments, each with one reference caption and boxes in some of its 10 sampled frames; a prediction is one
box in every frame. A word is hit when, in any frame where it has a box, the predicted box overlaps that box.
Segments without boxes are not scored. Official files:

    reference   {"annotations": {video: {"segments": {segment: {"tokens", "process_bnd_box", "frame_ind",
                "process_idx", "process_clss"}}}}}; each box has a list of words and one of classes
    submission  {"results": {video: {segment: {"clss", "idx_in_sent", "bbox_for_all_frames"}}}}
    splits      {"validation": [video, ...], ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from groundling.files import Location, Source, read_json
from groundling.metrics.entities_common import Lemmas, lemmatiser, results_of, split_ids, split_name, warn_if_empty
from groundling.metrics.grounding import (
    Grounding,
    Pointing,
    ReferenceGrounding,
    Sentence,
    Word,
    evaluate_generated,
    evaluate_reference,
)
from groundling.metrics.overlap import as_boxes
from groundling.progress import collector_paused

FRAMES = 10


def activitynet_entities(
    submission: Source,
    reference: Source,
    split_file: Source,
    split: str | Sequence[str],
    mode: Literal["generated", "gt"] = "generated",
    iou: float = 0.5,
    lemmas: Lemmas | None = None,
) -> dict[str, Any]:
    """The scores of a submission: {"all": {"precision", "recall", "f1", ...}, "loc": {...}}, or {"accuracy"} for "gt".

    Files are paths or what they hold. `lemmas` is a table {word: lemma}, or its path, or a function; the built-in rules
    serve where it is missing. `ground_video` and `ground_given_video` give the same with statistics per segment.
    """
    if mode == "gt":
        return ground_given_video(submission, reference, split_file, split, iou).to_dict()
    if mode != "generated":
        raise ValueError(f"unknown mode {mode!r}; there are 'generated' and 'gt'")
    return ground_video(submission, reference, split_file, split, iou, lemmas).to_dict()


@collector_paused()
def ground_video(
    submission: Source,
    reference: Source,
    split_file: Source,
    split: str | Sequence[str],
    iou: float = 0.5,
    lemmas: Lemmas | None = None,
) -> Grounding:
    """Score generated captions. Items are segments, named `video/segment`.

    A segment without a prediction lowers recall; predictions for segments without reference, for other splits and for
    unknown videos lower the per-sentence scores, which divide by all segments handed in.
    """
    sentences, pointings, handed_in = _paired(submission, reference, split_file, split)
    lemma, name = lemmatiser(lemmas)
    fields = {"data": "activitynet-entities", "split": split_name(split), "lemma": name}
    return evaluate_generated(sentences, pointings, lemma, iou, handed_in, fields)


@collector_paused()
def ground_given_video(
    submission: Source, reference: Source, split_file: Source, split: str | Sequence[str], iou: float = 0.5
) -> ReferenceGrounding:
    """Score what is pointed at in the reference captions themselves; a missing segment is all misses."""
    sentences, pointings, _ = _paired(submission, reference, split_file, split)
    return evaluate_reference(sentences, pointings, iou, {"data": "activitynet-entities", "split": split_name(split)})


def _paired(
    submission: Source, reference: Source, split_file: Source, split: str | Sequence[str]
) -> tuple[list[Sentence], list[Pointing | None], dict[str, int]]:
    sentences = references(reference, split_ids(split_file, split))
    warn_if_empty(list(sentences), split)
    results, location = results_of(submission)
    handed_in: dict[str, int] = {}
    pointings: dict[tuple[str, str], Pointing] = {}
    for video, segments in results.items():
        for number, row in location.at(video).expect(segments, dict).items():
            handed_in[f"{video}/{number}"] = 1
            if (video, number) in sentences:
                pointings[video, number] = _pointing(row, location.at(video, number))
    return list(sentences.values()), [pointings.get(key) for key in sentences], handed_in


def references(reference: Source, wanted: set[str]) -> dict[tuple[str, str], Sentence]:
    """(video, segment) -> its caption, for the annotated segments of the wanted videos."""
    value, name = read_json(reference, "reference")
    sentences: dict[tuple[str, str], Sentence] = {}
    for video, about in Location(name).get(value, "annotations", dict).items():
        if video in wanted:
            location = Location(name, video)
            for number, segment in location.get(about, "segments", dict).items():
                at = location.at(number)
                if at.get(segment, "frame_ind", list):  # else nobody looked for boxes here
                    sentences[video, number] = _sentence(f"{video}/{number}", segment, at)
    return sentences


def _sentence(item: str, segment: Any, location: Location) -> Sentence:
    tokens = location.at("tokens").items(location.get(segment, "tokens", list), str)
    frames = location.at("frame_ind").items(location.get(segment, "frame_ind", list), int)
    boxes = location.at("process_bnd_box").call(as_boxes, location.get(segment, "process_bnd_box", list))
    indices = location.at("process_idx").items(location.get(segment, "process_idx", list), list)
    labels = location.at("process_clss").items(location.get(segment, "process_clss", list), list)
    if not len(frames) == len(boxes) == len(indices) == len(labels):
        raise location.error(
            f"frame_ind, process_bnd_box, process_idx and process_clss must go together, got {len(frames)}, "
            f"{len(boxes)}, {len(indices)} and {len(labels)} of them"
        )
    label_of: dict[int, str] = {}  # of each word, as its first box has it
    rows: dict[int, list[int]] = {}
    first: dict[str, int] = {}  # class -> its first word
    for box, (its_indices, its_labels) in enumerate(zip(indices, labels, strict=True)):
        at = location.at("box", box)
        if len(its_indices) != len(its_labels):
            raise at.error(f"{len(its_indices)} words in process_idx but {len(its_labels)} classes in process_clss")
        for index, label in zip(at.items(its_indices, int), at.items(its_labels, str), strict=True):
            label_of.setdefault(index, label)
            its_rows = rows.setdefault(index, [])
            if box not in its_rows:
                its_rows.append(box)
            first[label] = min(index, first.get(label, index))
    words = tuple(Word(index, label, tuple(rows[index])) for index, label in label_of.items())
    place_of = {word.index: i for i, word in enumerate(words)}
    targets = {label: place_of[index] for label, index in first.items()}
    number = np.array([f if 0 <= f < FRAMES else -1 for f in frames], np.intp)
    return Sentence(item, tuple(tokens), words, boxes, number, targets)


def _pointing(row: Any, location: Location) -> Pointing:
    labels = location.at("clss").items(location.get(row, "clss", list), str)
    indices = location.at("idx_in_sent").items(location.get(row, "idx_in_sent", list), int)
    frames = location.get(row, "bbox_for_all_frames", list)
    if not len(labels) == len(indices) == len(frames):
        raise location.error(
            f"clss, idx_in_sent and bbox_for_all_frames must go together, got {len(labels)}, {len(indices)} and "
            f"{len(frames)} of them"
        )
    boxes = np.zeros((len(labels), FRAMES, 4), np.float32)
    for k, value in enumerate(frames):
        at = location.at("bbox_for_all_frames", k)
        of_word = at.call(as_boxes, value)
        if len(of_word) != FRAMES:
            raise at.error(f"expected one box in each of {FRAMES} frames, got {len(of_word)}")
        boxes[k] = of_word
    return Pointing(tuple(labels), tuple(indices), boxes)
