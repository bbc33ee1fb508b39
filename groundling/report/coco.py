"""Captions and boxes as COCO has them, for tools that read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groundling.data.evaluator_files import plain_id
from groundling.types import GroundedCaption, Link


def coco_results(captions: Iterable[GroundedCaption]) -> list[dict[str, Any]]:
    """What the caption evaluators read: image_id and caption."""
    return [{"image_id": plain_id(said.id), "caption": said.text} for said in captions]


def coco_boxes(captions: Iterable[GroundedCaption], class_of: Mapping[str, str] | None = None) -> dict[str, Any]:
    """COCO detection JSON: images, categories, and an annotation with a score for each box of a word.

    A category is the word, or its class, as in {"dogs": "dog"}; they are numbered in alphabetical order. `bbox` is
    left, top, width, height in pixels. `score` is the probability that the thing is in the image, or, where no grounder
    looked, how sure the model is of the place; `weak` marks words that may be made up. Boxes of a clip name their
    frame.
    """
    captions, names = list(captions), class_of or {}
    words = {names.get(word, word) for said in captions for link in said for word in [said.word(link)]}
    number = {name: i for i, name in enumerate(sorted(words), start=1)}
    rows = [
        _annotation(said, link, number[names.get(said.word(link), said.word(link))])
        for said in captions
        for link in said
    ]
    return {
        "images": [_image(said) for said in captions],
        "categories": [{"id": i, "name": name} for name, i in number.items()],
        "annotations": [{"id": i, **row} for i, row in enumerate(rows, start=1)],
    }


def _image(said: GroundedCaption) -> dict[str, Any]:
    width, height = said.size
    return {"id": plain_id(said.id), "file_name": said.media, "width": width, "height": height}


def _annotation(said: GroundedCaption, link: Link, category: int) -> dict[str, Any]:
    left, top, right, bottom = link.box
    width, height = right - left, bottom - top
    return {
        "image_id": plain_id(said.id),
        "category_id": category,
        "bbox": [round(x, 2) for x in (left, top, width, height)],
        "area": round(width * height, 2),
        "iscrowd": 0,
        "score": round(link.score if link.evidence is None else link.evidence, 4),
        "weak": said.weak(link),
        **({"frame": link.frame} if said.frames else {}),
    }
