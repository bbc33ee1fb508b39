"""Label Studio: tasks with predictions, and the labelling configuration to paste (`config.xml`).

The captions of an image are one text, a line each; a phrase is a text region, a box a rectangle in percent of the
image, and a relation leads from the phrase to each of its boxes. `score` of a rectangle is the confidence of the box,
that of the prediction the least of them, so that tasks can be sorted by doubt. `image` is the path as labelled: Label
Studio needs it below its document root, or an address. Read back are predictions, or the annotations of people where a
task has some. Not held: the model's score of a box, evidence, labels that were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from groundling.labels.formats.parts import box_of, dumped, finite, heads, json_file, parsing, with_labels
from groundling.labels.label import Label, LabelledImage, Mention, as_box
from groundling.types import Box

FILE, CONFIG = "tasks.json", "config.xml"
BOXES, PHRASES, IMAGE, TEXT = "boxes", "phrases", "image", "captions"  # names of tags and objects


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    (folder / CONFIG).write_text(config(heads(images)), encoding="utf-8")
    with (folder / FILE).open("w", encoding="utf-8") as file:
        file.write("[")
        for number, image in enumerate(with_labels(images)):
            file.write(f"{',' if number else ''}\n{dumped(_task(image))}")
        file.write("]\n")


def config(names: Iterable[str]) -> str:
    """The labelling configuration of these classes."""
    values = [f"    <Label value={quoteattr(name)}/>" for name in names]
    lines = [
        "<View>",
        '  <Relations>\n    <Relation value="shows"/>\n  </Relations>',
        f'  <Image name="{IMAGE}" value="$image"/>',
        f'  <RectangleLabels name="{BOXES}" toName="{IMAGE}">',
        *values,
        "  </RectangleLabels>",
        f'  <Labels name="{PHRASES}" toName="{TEXT}">',
        *values,
        "  </Labels>",
        f'  <Text name="{TEXT}" value="$captions"/>',
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def read(folder: Path) -> Iterator[LabelledImage]:
    path = folder / FILE if folder.is_dir() else folder
    with parsing(str(path)):
        tasks = list(json_file(path))
    for number, task in enumerate(tasks):
        with parsing(f"{path}, task {number}"):
            image = _read(task)
        yield image


def _task(image: LabelledImage) -> dict[str, Any]:
    result = [row for at, label in enumerate(image.kept) for row in _results(image, at, label)]
    surest = [placed.confidence for label in image.kept for placed in label.boxes]
    data = {"image": image.media, "captions": "\n".join(image.captions), "id": image.id, "split": image.split}
    data["size"] = "{}x{}".format(*image.size)
    prediction = {"model_version": "groundling", "score": round(min(surest, default=0.0), 4), "result": result}
    return {"data": data, "predictions": [prediction]}


def _results(image: LabelledImage, at: int, label: Label) -> Iterator[dict[str, Any]]:
    starts = _starts(image.captions)
    boxes = [f"label{at}-box{i}" for i in range(len(label.boxes))]
    width, height = image.size
    for id, placed in zip(boxes, label.boxes, strict=True):
        value = _percent(placed.box, image.size) | {"rotation": 0, "rectanglelabels": [label.head]}
        row: dict[str, Any] = {"id": id, "from_name": BOXES, "to_name": IMAGE, "type": "rectanglelabels"}
        row |= {"original_width": width, "original_height": height, "image_rotation": 0}
        yield row | {"value": value, "score": round(placed.confidence, 4)}
    for i, mention in enumerate(label.mentions):
        id, first = f"label{at}-phrase{i}", starts[mention.caption]
        value = {"start": first + mention.span[0], "end": first + mention.span[1]}
        value |= {"text": image.phrase(mention), "labels": [label.head]}
        yield {"id": id, "from_name": PHRASES, "to_name": TEXT, "type": "labels", "value": value}
        for box in boxes:
            yield {"type": "relation", "from_id": id, "to_id": box, "direction": "right", "labels": ["shows"]}


def _starts(captions: Iterable[str]) -> list[int]:
    """Where each caption begins in the text of all."""
    starts, at = [], 0
    for text in captions:
        starts.append(at)
        at += len(text) + 1
    return starts


def _percent(box: Box, size: tuple[int, int]) -> dict[str, Any]:
    (left, top, right, bottom), (width, height) = box, size
    x, y = 100 * left / width, 100 * top / height
    sides = {"x": x, "y": y, "width": 100 * right / width - x, "height": 100 * bottom / height - y}
    return {name: round(value, 6) for name, value in sides.items()}


# ---------------------------------------------------------------- reading


def _read(task: dict[str, Any]) -> LabelledImage:
    data = task["data"]
    captions = tuple(str(data["captions"]).split("\n"))
    rows = (task.get("annotations") or task["predictions"])[0]["result"]
    boxes = {row["id"]: row for row in rows if row["type"] == "rectanglelabels"}
    phrases = {row["id"]: row for row in rows if row["type"] == "labels"}
    things = _things(boxes, phrases, [row for row in rows if row["type"] == "relation"])
    width, height = str(data.get("size", "0x0")).split("x")
    size = int(width), int(height)
    labels = tuple(
        _label([boxes[i] for i in some], [phrases[i] for i in mentioned], captions) for some, mentioned in things
    )
    id = str(data.get("id") or Path(str(data["image"])).stem)
    return LabelledImage(id, str(data["image"]), size, captions, labels, str(data.get("split", "")))


def _things(
    boxes: dict[str, Any], phrases: dict[str, Any], relations: list[dict[str, Any]]
) -> list[tuple[list[str], list[str]]]:
    """Ids of boxes and phrases that relations tie together; a box without a phrase is a thing of its own."""
    group = {id: id for id in [*boxes, *phrases]}
    for row in relations:
        if {row["from_id"], row["to_id"]} <= group.keys():
            old, new = group[row["to_id"]], group[row["from_id"]]
            group = {id: new if root == old else root for id, root in group.items()}
    found = []
    for root in dict.fromkeys(group[id] for id in boxes):
        found.append(([id for id in boxes if group[id] == root], [id for id in phrases if group[id] == root]))
    return found


def _label(boxes: list[dict[str, Any]], phrases: list[dict[str, Any]], captions: tuple[str, ...]) -> Label:
    starts = _starts(captions)
    head = str(boxes[0]["value"]["rectanglelabels"][0])
    mentions = []
    for row in phrases:
        start, end = int(row["value"]["start"]), int(row["value"]["end"])
        at = max(i for i, first in enumerate(starts) if first <= start)
        mentions.append(Mention(at, (start - starts[at], end - starts[at])))
    texts = [captions[one.caption][slice(*one.span)] for one in mentions]
    placed = tuple(box_of(_box(row), finite(row.get("score", 1.0))) for row in boxes)
    return Label(max(texts, key=lambda text: len(text.split()), default=head), head, tuple(mentions), placed)


def _box(row: dict[str, Any]) -> Box:
    value, width, height = row["value"], int(row["original_width"]), int(row["original_height"])
    x, y = finite(value["x"]), finite(value["y"])
    right, bottom = x + finite(value["width"]), y + finite(value["height"])
    sides = (x * width, y * height, right * width, bottom * height)
    return as_box([round(side / 100, 2) for side in sides], (width, height))
