"""YOLO: `images/SPLIT` and `labels/SPLIT`, a text file an image (class, centre and sides as shares), and `data.yaml`.

Classes are head nouns. Images are linked or copied beside the labels. Not held: phrases, captions, confidence; an
image's size is read from its file again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from groundling.errors import DataError
from groundling.files import read_text
from groundling.images import SUFFIXES, image_size
from groundling.labels.files import copy_image, file_name
from groundling.labels.formats.parts import box_of, finite, heads, parsing, split_of, with_labels
from groundling.labels.label import Label, LabelledImage, as_box
from groundling.types import Box

CONFIG = "data.yaml"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    names = heads(images)
    number = {name: i for i, name in enumerate(names)}
    splits: dict[str, None] = {}
    for image in with_labels(images):
        split = split_of(image)
        splits[split] = None
        stem = file_name(image.id)
        copy_image(image.media, folder / "images" / split, stem)
        place = folder / "labels" / split
        place.mkdir(parents=True, exist_ok=True)
        rows = [f"{number[label.head]} {_shares(box.box, image.size)}\n" for label in image.kept for box in label.boxes]
        (place / f"{stem}.txt").write_text("".join(rows), encoding="ascii")
    _write_config(folder, names, list(splits))


def _write_config(folder: Path, names: list[str], splits: list[str]) -> None:
    """YAML whose every text is a JSON string, which YAML reads as it is."""
    lines = ["path: .", *(f"{json.dumps(split)}: images/{split}" for split in splits)]
    if "val" not in splits and splits:
        lines.append(f"val: images/{splits[0]}  # trainers ask for one")
    lines += ["names:", *(f"  {i}: {json.dumps(name)}" for i, name in enumerate(names))]
    (folder / CONFIG).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(folder: Path) -> Iterator[LabelledImage]:
    with parsing(str(folder / CONFIG)):
        names = _names(folder / CONFIG)
    for path in sorted((folder / "images").rglob("*")):
        if path.suffix.lower() in SUFFIXES:
            where = folder / "labels" / path.relative_to(folder / "images").with_suffix(".txt")
            size = image_size(path)
            labels = tuple(_labels(where, names, size))
            yield LabelledImage(path.stem, str(path), size, (), labels, path.parent.name)


def _names(path: Path) -> list[str]:
    """The classes, of the lines `  0: "dog"`; a list (`names: [...]` or `- dog`) is read too."""
    lines = read_text(path).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("names:")]
    if not starts:
        raise DataError(f"{path}: no names of classes; expected `names:`")
    rest = lines[starts[0]].removeprefix("names:").strip()
    if rest.startswith("["):
        return [part.strip().strip("'\"") for part in rest.strip("[]").split(",") if part.strip()]
    names = []
    for line in lines[starts[0] + 1 :]:
        if not line.startswith((" ", "-")):
            break
        text = line.strip().removeprefix("-").strip()
        text = text.partition(":")[2].strip() if text[:1].isdigit() else text
        names.append(json.loads(text) if text.startswith('"') else text.strip("'"))
    return names


def _labels(path: Path, names: list[str], size: tuple[int, int]) -> Iterator[Label]:
    for number, line in enumerate(read_text(path).splitlines() if path.exists() else (), start=1):
        with parsing(f"{path}, line {number}"):
            which, *sides = line.split()
            head = names[int(which)]
            box = _pixels([finite(side) for side in sides[:4]], size)
        yield Label(head, head, (), (box_of(box),))


def _shares(box: Box, size: tuple[int, int]) -> str:
    (left, top, right, bottom), (width, height) = box, size
    values = ((left + right) / 2 / width, (top + bottom) / 2 / height, (right - left) / width, (bottom - top) / height)
    return " ".join(f"{value:.6f}" for value in values)


def _pixels(sides: list[float], size: tuple[int, int]) -> Box:
    x, y, w, h = sides
    width, height = size
    corners = ((x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height)
    return as_box([round(corner, 2) for corner in corners], size)
