"""Hugging Face imagefolder: `SPLIT/metadata.jsonl` beside the images of the split, loaded by `datasets`.

Every row has `file_name`, `id`, `captions` and `objects`, lists of one length: `bbox` (xywh in pixels), `categories`
(head nouns), `phrase`, `confidence`, `label` (boxes of one thing share it) and `mentions` as text, "caption:start:end"
with spaces between them. Images are linked or copied. Not held: the model's score, labels that were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from groundling.labels.files import copy_image, file_name
from groundling.labels.formats.parts import (
    box_of,
    dumped,
    from_xywh,
    json_lines,
    parsing,
    split_of,
    with_labels,
    xywh,
)
from groundling.labels.label import Label, LabelledImage, Mention

FILE = "metadata.jsonl"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    files: dict[str, Any] = {}
    try:
        for image in with_labels(images):
            place = folder / split_of(image)
            name = copy_image(image.media, place, file_name(image.id))
            if split_of(image) not in files:
                files[split_of(image)] = (place / FILE).open("w", encoding="utf-8")
            files[split_of(image)].write(dumped(_row(image, name)) + "\n")
    finally:
        for file in files.values():
            file.close()


def read(folder: Path) -> Iterator[LabelledImage]:
    for path in sorted(folder.glob(f"*/{FILE}")):
        for where, row in json_lines(path):
            with parsing(where):
                image = _read(row, path.parent)
            yield image


def _row(image: LabelledImage, name: str) -> dict[str, Any]:
    placed = [(at, label, box) for at, label in enumerate(image.kept) for box in label.boxes]
    objects: dict[str, Any] = {
        "bbox": [xywh(box.box) for _, _, box in placed],
        "categories": [label.head for _, label, _ in placed],
        "phrase": [label.phrase for _, label, _ in placed],
        "confidence": [round(box.confidence, 4) for _, _, box in placed],
        "label": [at for at, _, _ in placed],
        "mentions": [_mentions(label) for _, label, _ in placed],
    }
    row: dict[str, Any] = {"file_name": name, "id": image.id, "width": image.size[0], "height": image.size[1]}
    return row | {"captions": list(image.captions), "objects": objects}


def _mentions(label: Label) -> str:
    return " ".join(f"{one.caption}:{one.span[0]}:{one.span[1]}" for one in label.mentions)


def _mention(text: str) -> Mention:
    caption, start, end = map(int, text.split(":"))
    return Mention(caption, (start, end))


def _read(row: dict[str, Any], folder: Path) -> LabelledImage:
    size = int(row["width"]), int(row["height"])
    objects = row["objects"]
    labels: dict[Any, Label] = {}
    for i, at in enumerate(objects["label"]):
        box = box_of(from_xywh(objects["bbox"][i], size), float(objects["confidence"][i]))
        mentions = tuple(map(_mention, objects["mentions"][i].split()))
        known = labels.get(at, Label(str(objects["phrase"][i]), str(objects["categories"][i]), mentions))
        labels[at] = Label(known.phrase, known.head, known.mentions, (*known.boxes, box))
    captions = tuple(map(str, row["captions"]))
    media = str(folder / str(row["file_name"]))
    return LabelledImage(str(row["id"]), media, size, captions, tuple(labels.values()), folder.name)
