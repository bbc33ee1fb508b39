"""Flickr30k-Entities: grounding of image captions, as the official evaluator counts it.

Every image of a split has (usually five) reference captions. The one generated caption is scored against each of them
separately; on given sentences there is one row per reference caption. Official files:

    reference   {"annotations": [{"image_id", "captions": [{"tokens", "process_idx", "process_clss",
                "process_bnd_box"}]}]}, one box for each annotated word
    submission  {"results": {image_id: [{"clss", "idx_in_sent", "bbox"}]}}, one row (generated) or one per caption
    splits      {"val": [image_id, ...], ...}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from groundling.files import Location, Source, read_json
from groundling.metrics.entities_common import (
    Lemmas,
    identity,
    lemmatiser,
    results_of,
    split_ids,
    split_name,
    warn_if_empty,
)
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

CAPTIONS = 5  # of an image that the reference does not know, in the count of sentences handed in


def flickr30k_entities(
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
    serve where it is missing. `ground_image` and `ground_given_image` give the same with statistics per image.
    """
    if mode == "gt":
        return ground_given_image(submission, reference, split_file, split, iou).to_dict()
    if mode != "generated":
        raise ValueError(f"unknown mode {mode!r}; there are 'generated' and 'gt'")
    return ground_image(submission, reference, split_file, split, iou, lemmas).to_dict()


@collector_paused()
def ground_image(
    submission: Source,
    reference: Source,
    split_file: Source,
    split: str | Sequence[str],
    iou: float = 0.5,
    lemmas: Lemmas | None = None,
) -> Grounding:
    """Score generated captions. An image without a prediction lowers recall; unknown ids lower per-sentence scores."""
    sentences, captions = _read(reference, split_ids(split_file, split))
    warn_if_empty(sentences, split)
    results, location = results_of(submission)
    scored = dict.fromkeys((sentence.item for sentence in sentences), 1)
    pointings = {item: _pointing(rows[0], at.at(0)) for item, rows, at in _rows(results, location, scored)}
    for item in results.keys() - scored.keys():  # of other splits, or unknown: counted, so they must be rows
        location.at(item).items(results[item], dict)
    lemma, name = lemmatiser(lemmas)
    return evaluate_generated(
        sentences,
        [pointings.get(sentence.item) for sentence in sentences],
        lemma,
        iou,
        handed_in={item: captions.get(item, CAPTIONS) for item in results},
        fields={"data": "flickr30k-entities", "split": split_name(split), "lemma": name},
    )


@collector_paused()
def ground_given_image(
    submission: Source, reference: Source, split_file: Source, split: str | Sequence[str], iou: float = 0.5
) -> ReferenceGrounding:
    """Score what is pointed at in the reference captions themselves, one row for each; a missing image is a miss."""
    sentences, _ = _read(reference, split_ids(split_file, split))
    warn_if_empty(sentences, split)
    results, location = results_of(submission)
    given = {
        item: [_pointing(row, at.at(i)) for i, row in enumerate(rows)]
        for item, rows, at in _rows(results, location, Counter(sentence.item for sentence in sentences))
    }
    rows = {item: iter(pointings) for item, pointings in given.items()}
    pointings = [next(rows[sentence.item]) if sentence.item in rows else None for sentence in sentences]
    return evaluate_reference(sentences, pointings, iou, {"data": "flickr30k-entities", "split": split_name(split)})


def references(reference: Source, wanted: set[str]) -> list[Sentence]:
    """The captions of the wanted images, those without annotation included."""
    return _read(reference, wanted)[0]


def _read(reference: Source, wanted: set[str]) -> tuple[list[Sentence], dict[str, int]]:
    """The same, and how many captions each image has, wanted or not."""
    value, name = read_json(reference, "reference")
    sentences: list[Sentence] = []
    count: dict[str, int] = {}
    annotations = Location(name).get(value, "annotations", list)
    for i, image in enumerate(annotations):
        location = Location(name, "annotations", i)
        item = identity(location.at("image_id"), location.expect(image, dict).get("image_id"))
        location = Location(name, f"image {item}")
        if item in count:
            raise location.error("annotated twice; keep one")
        captions = location.get(image, "captions", list)
        count[item] = len(captions)
        if item in wanted:
            sentences += [_sentence(item, caption, location.at("caption", j)) for j, caption in enumerate(captions)]
        if isinstance(reference, str | Path):  # what was read here may go: its memory serves what comes
            annotations[i] = None
    return sentences, count


def _sentence(item: str, caption: Any, location: Location) -> Sentence:
    tokens = location.at("tokens").items(location.get(caption, "tokens", list), str)
    indices = location.at("process_idx").items(location.get(caption, "process_idx", list), int)
    labels = location.at("process_clss").items(location.get(caption, "process_clss", list), str)
    boxes = location.at("process_bnd_box").call(as_boxes, location.get(caption, "process_bnd_box", list))
    if not len(indices) == len(labels) == len(boxes):
        raise location.error(
            f"process_idx, process_clss and process_bnd_box must go together, got {len(indices)}, {len(labels)} and "
            f"{len(boxes)} of them"
        )
    if len(set(indices)) < len(indices):
        raise location.error(f"a word is annotated twice in process_idx {indices}; merge its boxes into one")
    words = tuple(Word(index, label, (row,)) for row, (index, label) in enumerate(zip(indices, labels, strict=True)))
    targets = {words[i].label: i for i in sorted(range(len(words)), key=lambda i: -words[i].index)}
    return Sentence(item, tuple(tokens), words, boxes, np.zeros(len(boxes), np.intp), targets)


def _rows(
    results: Mapping[str, Any], location: Location, expected: Mapping[str, int]
) -> list[tuple[str, list[Any], Location]]:
    """The rows of every image that is scored, as many as are expected of it."""
    result = []
    for item, n in expected.items():
        if item in results:
            at = location.at(item)
            rows = at.expect(results[item], list)
            if len(rows) != n:
                raise at.error(f"expected {n} row(s), one for each caption that is scored, got {len(rows)}")
            result.append((item, rows, at))
    return result


def _pointing(row: Any, location: Location) -> Pointing:
    labels = location.at("clss").items(location.get(row, "clss", list), str)
    indices = location.at("idx_in_sent").items(location.get(row, "idx_in_sent", list), int)
    boxes = location.at("bbox").call(as_boxes, location.get(row, "bbox", list))
    if not len(labels) == len(indices) == len(boxes):
        raise location.error(
            f"clss, idx_in_sent and bbox must go together, got {len(labels)}, {len(indices)} and {len(boxes)} of them"
        )
    return Pointing(tuple(labels), tuple(indices), boxes[:, None])
