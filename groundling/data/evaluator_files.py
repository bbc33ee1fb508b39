"""The JSON files of the Flickr30k-Entities and ActivityNet-Entities evaluators, to and from our own types.

A reference holds tokens, and for chosen words their class and box; a split file the ids of each split; a submission
the words that a model grounded. They count pixels inclusively: a box from 0 to 99 is 100 pixels wide, and here 0.0 to
100.0. So right and bottom gain 1 on the way in and lose it on the way out, which is exact for whole pixels.

A segment of a video is an example of its own, with the id `VIDEO_segment_NN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundling.data.checks import MAX_SIDE, Problems, checked_box, expect, get, identity, numbers, within
from groundling.data.splits import CANONICAL, canonical
from groundling.errors import DataError
from groundling.types import Box, Caption, Example, GroundedCaption, Link, Phrase, Span

FRAMES = 10  # a segment is shown to annotators and evaluators as so many frames
NOWHERE = [0, 0, 0, 0]  # one pixel, which the evaluators never count as a hit
MAX_TOKENS = 10_000  # of one sentence
UNKNOWN = "_"  # a word that a submission does not name


# ---------------------------------------------------------------- references in


def image_examples(reference: Any, split_of: Mapping[str, str], where: str, problems: Problems) -> list[Example]:
    """Examples of `flickr30k_cleaned_class.json`; those in no split keep "" as their split."""
    examples = []
    for row in get(reference, "annotations", list, where):
        with problems.item():
            id = identity(row, "image_id", where)
            location = f"{where}: image {id}"
            captions: list[Caption] = []
            gold: list[Phrase] = []
            for i, caption_row in enumerate(get(row, "captions", list, location)):
                with problems.item():
                    caption = of_tokens(get(caption_row, "tokens", list, location), f"{location}, caption {i}")
                    gold += _image_phrases(caption_row, caption, len(captions), f"{location}, caption {i}", problems)
                    captions.append(caption)
            size = numbers(row["image_size"], 2, f"{location}: image_size") if "image_size" in row else (0, 0)
            width, height = (within(side, MAX_SIDE, f"{location}: image_size") for side in size)
            examples.append(Example(id, "", (width, height), tuple(captions), tuple(gold), split=split_of.get(id, "")))
    return examples


def video_examples(reference: Any, split_of: Mapping[str, str], where: str, problems: Problems) -> list[Example]:
    """Examples of `anet_entities_cleaned_class_*.json`, one for each segment."""
    examples = []
    for video, row in get(reference, "annotations", dict, where).items():
        for number, segment in get(row, "segments", dict, f"{where}: {video}").items():
            with problems.item():
                location = f"{where}: {video}, segment {number}"
                caption = of_tokens(get(segment, "tokens", list, location), location)
                times = (
                    numbers(segment["timestamps"], 2, f"{location}: timestamps") if "timestamps" in segment else None
                )
                examples.append(
                    Example(
                        segment_id(video, number),
                        "",
                        (0, 0),
                        (caption,),
                        tuple(_video_phrases(segment, caption, location, problems)),
                        split=split_of.get(video, ""),
                        segment=(times[0], times[1]) if times else None,
                    )
                )
    return examples


def read_splits(splits: Any, where: str) -> dict[str, str]:
    """Split of each id, from {"train": [ids], ...}; `training`, `validation`, `testing` get their short names."""
    split_of = {}
    for name, ids in expect(splits, dict, where).items():
        for id in expect(ids, list, f"{where}: {name}"):
            split_of[str(id)] = canonical(name)
    return split_of


def segment_id(video: str, number: str) -> str:
    return f"{video}_segment_{int(number):02d}" if _is_number(number) else f"{video}_segment_{number}"


def of_tokens(tokens: Sequence[Any], where: str) -> Caption:
    """A caption whose tokens are given, punctuation and all: the words that a reference points at are counted in it."""
    if not tokens:
        raise DataError(f"{where}: a caption without tokens")
    words = [expect(token, str, where) for token in tokens]
    spans: list[Span] = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return Caption(" ".join(words), tuple(word.lower() for word in words), tuple(spans))


def _image_phrases(row: Any, caption: Caption, index: int, where: str, problems: Problems) -> list[Phrase]:
    columns = [get(row, key, list, where) for key in ("process_idx", "process_clss", "process_bnd_box")]
    if len({len(column) for column in columns}) > 1:
        raise DataError(f"{where}: process_idx, process_clss and process_bnd_box differ in length")
    phrases = []
    for token, name, corners in zip(*columns, strict=True):
        with problems.item():
            head = _token(token, caption, where)
            box = checked_box(from_inclusive(numbers(corners, 4, where)), (0, 0), f"{where}, word {head}")
            label = expect(name, str, where)
            phrases.append(Phrase(index, (head, head + 1), (box,), label=label, head=head))
    return phrases


def _video_phrases(row: Any, caption: Caption, where: str, problems: Problems) -> list[Phrase]:
    """One phrase a word; its boxes are all that name it, its class that of the first."""
    labels: dict[int, str] = {}
    boxes: dict[int, list[tuple[Box, int]]] = {}
    box_rows, frames = get(row, "process_bnd_box", list, where), get(row, "frame_ind", list, where)
    words, names = get(row, "process_idx", list, where), get(row, "process_clss", list, where)
    if len(box_rows) != len(frames) or (box_rows and not len(box_rows) == len(words) == len(names)):
        raise DataError(f"{where}: process_bnd_box, frame_ind, process_idx and process_clss differ in length")
    for i, (tokens, classes) in enumerate(zip(words, names, strict=False)):
        with problems.item():
            location = f"{where}, box {i}"
            box = checked_box(from_inclusive(numbers(box_rows[i], 4, location)), (0, 0), location) if box_rows else None
            for token, name in zip(expect(tokens, list, where), expect(classes, list, where), strict=False):
                head = _token(token, caption, where)
                labels.setdefault(head, expect(name, str, where))
                boxes.setdefault(head, [])
                if box:
                    boxes[head].append((box, expect(frames[i], int, f"{where}: frame_ind")))
    return [
        Phrase(
            0,
            (head, head + 1),
            tuple(b for b, _ in its_boxes),
            tuple(f for _, f in its_boxes),
            label=labels[head],
            head=head,
        )
        for head, its_boxes in boxes.items()
    ]


def _token(value: Any, caption: Caption, where: str) -> int:
    index = expect(value, int, f"{where}: process_idx")
    if not 0 <= index < len(caption.tokens):
        raise DataError(f"{where}: process_idx {index} is no word of a caption of {len(caption.tokens)} tokens")
    return index


def from_inclusive(corners: Sequence[float]) -> Box:
    left, top, right, bottom = corners
    return left, top, right + 1, bottom + 1


# ---------------------------------------------------------------- references out


def image_reference(examples: Sequence[Example]) -> dict[str, Any]:
    """The Flickr30k-Entities reference. A word's boxes are merged into one, as its evaluator demands."""
    annotations = []
    for example in examples:
        captions = []
        for index, caption in enumerate(example.captions):
            words: dict[int, list[Phrase]] = {}
            for phrase in _classed(example):
                if phrase.caption == index:
                    words.setdefault(phrase.head, []).append(phrase)
            captions.append(
                {
                    "tokens": _tokens(caption),
                    "process_idx": list(words),
                    "process_clss": [phrases[0].label for phrases in words.values()],
                    "process_bnd_box": [
                        to_inclusive(merged([box for phrase in phrases for box in phrase.boxes]))
                        for phrases in words.values()
                    ],
                }
            )
        row: dict[str, Any] = {"image_id": plain_id(example.id), "captions": captions}
        annotations.append(row | ({"image_size": list(example.size)} if any(example.size) else {}))
    return {"vocab": _labels(examples), "annotations": annotations}


def video_reference(examples: Sequence[Example]) -> dict[str, Any]:
    """The ActivityNet-Entities reference: boxes, each with its frame and the words that it belongs to."""
    annotations: dict[str, Any] = {}
    for example in examples:
        words: dict[tuple[Box, int], list[tuple[int, str]]] = {}
        for phrase in _classed(example):
            for box, frame in zip(phrase.boxes, phrase.frames, strict=True):
                words.setdefault((box, frame), []).append((phrase.head, phrase.label))
        segment: dict[str, Any] = {
            "tokens": _tokens(example.captions[0]),
            "process_bnd_box": [to_inclusive(box) for box, _ in words],
            "frame_ind": [frame for _, frame in words],
            "process_idx": [[head for head, _ in named] for named in words.values()],
            "process_clss": [[label for _, label in named] for named in words.values()],
            "crowds": [0] * len(words),
        }
        if example.segment:
            segment["timestamps"] = list(example.segment)
        video, number = _video(example.id)
        annotations.setdefault(video, {"segments": {}})["segments"][number] = segment
    return {"vocab": _labels(examples), "annotations": annotations}


def image_splits(examples: Iterable[Example]) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for example in examples:
        splits.setdefault(example.split, []).append(example.id)
    return splits


def video_splits(examples: Iterable[Example]) -> dict[str, list[str]]:
    """The split file of videos, whose splits have long names."""
    long = {canonical: name for name, canonical in CANONICAL.items() if name.endswith("ing") or name == "validation"}
    splits: dict[str, list[str]] = {name: [] for name in long.values()}
    for example in examples:
        ids = splits.setdefault(long.get(example.split, example.split), [])
        video, _ = _video(example.id)
        if video not in ids[-1:]:
            ids.append(video)
    return splits


def merged(boxes: Sequence[Box]) -> Box:
    """The smallest box around all."""
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def to_inclusive(box: Box) -> list[float]:
    return [box[0], box[1], box[2] - 1, box[3] - 1]


def _tokens(caption: Caption) -> list[str]:
    return [caption.text[start:end] for start, end in caption.spans]


def plain_id(id: str) -> int | str:
    """The id as the official files write it: as a number where it is one."""
    return int(id) if _is_number(id) and str(int(id)) == id else id


def _is_number(text: str) -> bool:
    """Python refuses to read a number of thousands of digits."""
    return text.isdecimal() and len(text) <= 18


def _video(id: str) -> tuple[str, str]:
    video, separator, number = id.rpartition("_segment_")
    if not separator:
        raise DataError(f"the id {id!r} is no segment of a video; expected VIDEO_segment_NN")
    return video, str(int(number)) if _is_number(number) else number


def _classed(example: Example) -> list[Phrase]:
    """The phrases that evaluators score: with a box, a class, and a word that has it."""
    return [phrase for phrase in example.gold if phrase.boxes and phrase.label and phrase.head >= 0]


def _labels(examples: Iterable[Example]) -> list[str]:
    """Every class with a box once, in order of appearance."""
    return list(dict.fromkeys(phrase.label for example in examples for phrase in _classed(example)))


# ---------------------------------------------------------------- submissions


def image_submission(captions: Iterable[GroundedCaption], class_of: Mapping[str, str]) -> dict[str, Any]:
    """One row for each caption, under its image. Words without a class are not submitted."""
    results: dict[str, Any] = {}
    for caption in captions:
        links = [link for link in caption.links if caption.tokens[link.token] in class_of]
        row = {
            "clss": [class_of[caption.tokens[link.token]] for link in links],
            "idx_in_sent": [link.token for link in links],
            "bbox": [to_inclusive(link.box) for link in links],
        }
        results.setdefault(caption.id, []).append(row)
    return {"results": results}


def video_submission(captions: Iterable[GroundedCaption], class_of: Mapping[str, str]) -> dict[str, Any]:
    """One row for each segment; a word has one box in each of the ten frames, of one pixel where it has none."""
    results: dict[str, Any] = {}
    for caption in captions:
        words: list[tuple[int, dict[int, Box]]] = []  # token, box of each frame; a token may be grounded twice
        for link in caption.links:
            if caption.tokens[link.token] in class_of:
                open_rows = (boxes for token, boxes in words if token == link.token and link.frame not in boxes)
                boxes = next(open_rows, None)
                if boxes is None:
                    words.append((link.token, boxes := {}))
                boxes[link.frame] = link.box
        row = {
            "clss": [class_of[caption.tokens[token]] for token, _ in words],
            "idx_in_sent": [token for token, _ in words],
            "bbox_for_all_frames": [
                [to_inclusive(boxes[f]) if f in boxes else NOWHERE for f in range(FRAMES)] for _, boxes in words
            ],
        }
        video, number = _video(caption.id)
        results.setdefault(video, {})[number] = row
    return {"results": results}


def image_captions(submission: Any, where: str) -> list[GroundedCaption]:
    """What was submitted, as captions whose only known words are the grounded ones; the others are `_`."""
    captions = []
    for id, rows in get(submission, "results", dict, where).items():
        for row in expect(rows, list, f"{where}: {id}"):
            boxes = [[box] for box in get(row, "bbox", list, f"{where}: {id}")]
            captions.append(_grounded(id, row, boxes, f"{where}: {id}"))
    return captions


def video_captions(submission: Any, where: str) -> list[GroundedCaption]:
    captions = []
    for video, segments in get(submission, "results", dict, where).items():
        for number, row in expect(segments, dict, f"{where}: {video}").items():
            location = f"{where}: {video}, segment {number}"
            boxes = get(row, "bbox_for_all_frames", list, location)
            captions.append(_grounded(segment_id(video, number), row, boxes, location))
    return captions


def _grounded(id: str, row: Any, boxes: list[Any], where: str) -> GroundedCaption:
    names, positions = get(row, "clss", list, where), get(row, "idx_in_sent", list, where)
    if not len(names) == len(positions) == len(boxes):
        raise DataError(f"{where}: clss, idx_in_sent and the boxes differ in length")
    tokens: dict[int, str] = {}
    for position, name in zip(positions, names, strict=True):
        index = expect(position, int, f"{where}: idx_in_sent")
        if not 0 <= index < MAX_TOKENS:
            raise DataError(f"{where}: idx_in_sent {index}; expected a word of a sentence, 0 to {MAX_TOKENS - 1}")
        if tokens.setdefault(index, expect(name, str, where)) != name:
            raise DataError(f"{where}: word {index} is {tokens[index]!r} and {name!r}; a word has one class here")
    caption = of_tokens([tokens.get(i, UNKNOWN) for i in range(max(tokens, default=0) + 1)], where)
    links = []
    for position, row_of_boxes in zip(positions, boxes, strict=True):
        for frame, corners in enumerate(expect(row_of_boxes, list, where)):
            if corners != NOWHERE:
                box = from_inclusive(numbers(corners, 4, where))
                links.append(Link(position, caption.spans[position], box, 1.0, frame))
    return GroundedCaption(id, caption.text, caption.tokens, caption.spans, tuple(links))
