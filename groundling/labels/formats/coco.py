"""COCO detection: one JSON file of images, categories and annotations. Categories are head nouns, ids count from 1.

Beside COCO's own keys, an image has its `captions` and `source_id`, an annotation its `score`, `phrase`, `label`
(boxes of one thing share it), `evidence` and `mentions` ([caption, start, end] each). Tools pass over keys that they do
not know. Not held: labels that were left out, the model's score of a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from groundling.labels.formats.parts import box_of, from_xywh, heads, json_file, json_lists, parsing, with_labels, xywh
from groundling.labels.label import Label, LabelledImage, Mention

FILE = "annotations.json"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    write_file(images, folder / FILE)


def write_file(images: Iterable[LabelledImage], path: Path) -> None:
    names = heads(images)
    number = {name: i for i, name in enumerate(names, start=1)}
    with path.open("w", encoding="utf-8") as file:
        json_lists(
            file,
            {
                "images": (_image(i, image) for i, image in _numbered(images)),
                "categories": ({"id": i, "name": name, "supercategory": ""} for name, i in number.items()),
                "annotations": ({"id": i, **row} for i, row in enumerate(_annotations(images, number), start=1)),
            },
        )


def read(folder: Path) -> Iterator[LabelledImage]:
    yield from read_file(folder / FILE if folder.is_dir() else folder)


def read_file(path: Path) -> Iterator[LabelledImage]:
    with parsing(str(path)):
        content = json_file(path)
        names = {row["id"]: str(row["name"]) for row in content["categories"]}
        boxes: dict[Any, list[dict[str, Any]]] = {}
        for row in content["annotations"]:
            boxes.setdefault(row["image_id"], []).append(row)
        rows = list(content["images"])
    for number, row in enumerate(rows):
        with parsing(f"{path}, images[{number}]"):
            image = _read(row, boxes.get(row["id"], []), names)
        yield image


def _numbered(images: Iterable[LabelledImage]) -> Iterator[tuple[int, LabelledImage]]:
    return enumerate(with_labels(images), start=1)


def _image(number: int, image: LabelledImage) -> dict[str, Any]:
    width, height = image.size
    row: dict[str, Any] = {"id": number, "file_name": image.media, "width": width, "height": height}
    row |= {"source_id": image.id, "captions": list(image.captions)}
    return row | ({"split": image.split} if image.split else {})


def _annotations(images: Iterable[LabelledImage], number: dict[str, int]) -> Iterator[dict[str, Any]]:
    for at, image in _numbered(images):
        for which, label in enumerate(image.kept):
            for placed in label.boxes:
                left, top, width, height = xywh(placed.box)
                yield {
                    "image_id": at,
                    "category_id": number[label.head],
                    "bbox": [left, top, width, height],
                    "area": round(width * height, 2),
                    "iscrowd": 0,
                    "score": round(placed.confidence, 4),
                    "phrase": label.phrase,
                    "label": which,
                    "evidence": None if label.evidence is None else round(label.evidence, 4),
                    "mentions": [[one.caption, *one.span] for one in label.mentions],
                }


def _read(row: dict[str, Any], annotations: list[dict[str, Any]], names: dict[Any, str]) -> LabelledImage:
    size = int(row.get("width", 0)), int(row.get("height", 0))
    things: dict[Any, list[dict[str, Any]]] = {}
    for one in annotations:
        things.setdefault(one.get("label", f"annotation {one['id']}"), []).append(one)
    labels = tuple(_label(some, names, size) for some in things.values())
    captions = tuple(str(text) for text in row.get("captions", ()))
    id = str(row.get("source_id", row["id"]))
    return LabelledImage(id, str(row["file_name"]), size, captions, labels, str(row.get("split", "")))


def _label(rows: list[dict[str, Any]], names: dict[Any, str], size: tuple[int, int]) -> Label:
    first = rows[0]
    head = names[first["category_id"]]
    boxes = tuple(box_of(from_xywh(row["bbox"], size), float(row.get("score", 1.0))) for row in rows)
    mentions = tuple(Mention(caption, (start, end)) for caption, start, end in first.get("mentions", ()))
    return Label(str(first.get("phrase", head)), head, mentions, boxes, first.get("evidence"))
