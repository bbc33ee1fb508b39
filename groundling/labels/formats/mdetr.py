"""MDETR JSON: COCO's layout, an `images` entry for each caption, boxes as xywh, `tokens_positive` as characters.

Not held: head nouns, confidence, what phrases of two captions have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from groundling.labels.formats.parts import (
    box_of,
    captions_with_labels,
    from_xywh,
    json_file,
    json_lists,
    parsing,
    with_labels,
    xywh,
)
from groundling.labels.label import Label, LabelledImage, Mention

FILE = "mdetr.json"
DATASET = "groundling"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    with (folder / FILE).open("w", encoding="utf-8") as file:
        json_lists(
            file,
            {
                "info": (),
                "licenses": (),
                "images": (_image(number, at, image) for number, image, at, _ in _sentences(images)),
                "annotations": ({"id": i, **row} for i, row in enumerate(_annotations(images), start=1)),
                "categories": [{"id": 1, "name": "object", "supercategory": "object"}],
            },
        )


def read(folder: Path) -> Iterator[LabelledImage]:
    path = folder / FILE if folder.is_dir() else folder
    with parsing(str(path)):
        content = json_file(path)
        boxes: dict[Any, list[dict[str, Any]]] = {}
        for row in content["annotations"]:
            boxes.setdefault(row["image_id"], []).append(row)
        by_image = groupby(content["images"], key=lambda row: str(row.get("original_img_id", row["id"])))
        images = [(id, list(rows)) for id, rows in by_image]
    for id, rows in images:
        with parsing(f"{path}, image {id}"):
            image = _read(id, rows, boxes)
        yield image


def _sentences(
    images: Iterable[LabelledImage],
) -> Iterator[tuple[int, LabelledImage, int, list[tuple[Label, Mention]]]]:
    """Each caption of each image, numbered through."""
    number = 0
    for image in with_labels(images):
        for at, _, mentioned in captions_with_labels(image):
            number += 1
            yield number, image, at, mentioned


def _image(number: int, at: int, image: LabelledImage) -> dict[str, Any]:
    width, height = image.size
    row: dict[str, Any] = {"id": number, "file_name": image.media, "width": width, "height": height}
    row |= {"original_img_id": image.id, "sentence_id": at, "caption": image.captions[at], "dataset_name": DATASET}
    return row | {"tokens_negative": [[0, len(image.captions[at])]]}


def _annotations(images: Iterable[LabelledImage]) -> Iterator[dict[str, Any]]:
    for number, _, _, mentioned in _sentences(images):
        for label, mention in mentioned:
            for placed in label.boxes:
                left, top, width, height = xywh(placed.box)
                row: dict[str, Any] = {"image_id": number, "category_id": 1, "bbox": [left, top, width, height]}
                yield row | {"area": round(width * height, 2), "iscrowd": 0, "tokens_positive": [list(mention.span)]}


def _read(id: str, rows: list[dict[str, Any]], boxes: dict[Any, list[dict[str, Any]]]) -> LabelledImage:
    size = int(rows[0]["width"]), int(rows[0]["height"])
    captions = tuple(str(row["caption"]) for row in rows)
    labels = [
        _label(list(same), at, captions[at], size)
        for at, row in enumerate(rows)
        for _, same in groupby(boxes.get(row["id"], []), key=lambda one: one["tokens_positive"])
    ]
    return LabelledImage(id, str(rows[0]["file_name"]), size, captions, tuple(labels))


def _label(rows: list[dict[str, Any]], at: int, text: str, size: tuple[int, int]) -> Label:
    mentions = tuple(Mention(at, (int(start), int(end))) for start, end in rows[0]["tokens_positive"])
    phrase = text[slice(*mentions[0].span)] if mentions else ""
    return Label(phrase, "", mentions, tuple(box_of(from_xywh(row["bbox"], size)) for row in rows))
