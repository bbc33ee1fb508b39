"""Captions and boxes as COCO has them, for tools that read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groundling.data.evaluator_files import plain_id
from groundling.types import GroundedCaption, Link


def coco_results(captions: Iterable[GroundedCaption]) -> list[dict[str, Any]]:
    """What the caption evaluators read: image_id and caption."""
    return [{"image_id": plain_id(caption.id), "caption": caption.text} for caption in captions]


def coco_boxes(captions: Iterable[GroundedCaption], class_of: Mapping[str, str] | None = None) -> dict[str, Any]:
    """COCO detection JSON: images, categories, and an annotation with a score for each box of a word.

    A category is the word, or its class, as in {"dogs": "dog"}; they are numbered in alphabetical order. `bbox` is
    left, top, width, height in pixels. `score` is the evidence of the word or, without a grounder, how sure the model
    is of the box; `weak` marks words that may be made up. Boxes of a clip name their frame."""
    captions, names = list(captions), class_of or {}
    words = {names.get(word, word) for caption in captions for link in caption for word in [caption.word(link)]}
    number = {name: i for i, name in enumerate(sorted(words), start=1)}
    rows = [
        _annotation(caption, link, number[names.get(caption.word(link), caption.word(link))])
        for caption in captions
        for link in caption
    ]
    return {
        "images": [_image(caption) for caption in captions],
        "categories": [{"id": i, "name": name} for name, i in number.items()],
        "annotations": [{"id": i, **row} for i, row in enumerate(rows, start=1)],
    }


def _image(caption: GroundedCaption) -> dict[str, Any]:
    width, height = caption.size
    return {"id": plain_id(caption.id), "file_name": caption.media, "width": width, "height": height}


def _annotation(caption: GroundedCaption, link: Link, category: int) -> dict[str, Any]:
    left, top, right, bottom = link.box
    width, height = right - left, bottom - top
    return {
        "image_id": plain_id(caption.id),
        "category_id": category,
        "bbox": [round(x, 2) for x in (left, top, width, height)],
        "area": round(width * height, 2),
        "iscrowd": 0,
        "score": round(link.score if link.evidence is None else link.evidence, 4),
        "weak": caption.weak(link),
        **({"frame": link.frame} if caption.frames else {}),
    }
