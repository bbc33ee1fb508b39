"""COCO captions JSON (a user's own, too), with the objects of the instances file beside it.

One file, or a folder with `captions_*.json` in it or in `annotations`; the split is in the name of the file
(`captions_train2014.json`), as is that of the instances (`instances_train2014.json`), which become the `things` of
each example. COCO's boxes are (left, top, width, height) in continuous pixels.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from groundling.data.checks import (
    MAX_SIDE,
    Problems,
    checked_box,
    checked_caption,
    get,
    head,
    identity,
    numbers,
    read_json,
    within,
)
from groundling.data.pictures import Pictures
from groundling.data.splits import from_file_name
from groundling.errors import DataError
from groundling.images import image_size
from groundling.types import Caption, Example, Thing

FORMAT = "COCO captions"
LOOKS_FOR = (
    "a captions_*.json (images and annotations with captions), or a folder that holds some, or annotations/ in it"
)

Sizes = dict[str, tuple[int, int]]


def claims(path: Path) -> bool:
    files = _files(path)
    return bool(files) and all('"image_id"' in (start := head(file)) or '"file_name"' in start for file in files)


def read(path: Path, problems: Problems) -> list[Example]:
    files = _files(path)
    root = files[0].parent.parent if files[0].parent.name == "annotations" else files[0].parent
    pictures = Pictures(root)
    return [example for file in files for example in _read(file, pictures, problems)]


def annotation_files(path: Path) -> list[Path]:
    files = _files(path)
    return files + [_instances(file) for file in files]


def _read(file: Path, pictures: Pictures, problems: Problems) -> list[Example]:
    content = read_json(file)
    names, sizes = image_rows(content, str(file))
    captions: dict[str, list[Caption]] = defaultdict(list)
    for number, row in enumerate(get(content, "annotations", list, str(file))):
        with problems.item():
            where = f"{file}: annotation {row.get('id', number) if isinstance(row, dict) else number}"
            id = known_image(row, names, where)
            captions[id].append(checked_caption(get(row, "caption", str, where), where))
    instances = _instances(file)
    things = _things(instances, sizes, problems) if instances != file and instances.is_file() else {}
    examples = []
    for id, name in names.items():
        with problems.item():
            if not captions[id]:
                raise DataError(f"{file}: image {id} ({name}) has no caption")
            media, size = located(pictures, name, sizes[id])
            things_of = tuple(things.get(id, ()))
            split = from_file_name(file)
            examples.append(Example(id, media, size, tuple(captions[id]), things=things_of, split=split))
    return examples


def image_rows(content: Any, where: str) -> tuple[dict[str, str], Sizes]:
    """File name and size of each image of a COCO file, by id; a size that is not given is (0, 0)."""
    names: dict[str, str] = {}
    sizes: Sizes = {}
    for number, row in enumerate(get(content, "images", list, where)):
        id = identity(row, "id", f"{where}: image {number}")
        if id in names:
            raise DataError(f"{where}: two images have the id {id}; give each its own")
        names[id] = get(row, "file_name", str, f"{where}: image {id}")
        location = f"{where}: image {id}"
        sides = [
            within(get(row, side, int, location), MAX_SIDE, f"{location}: {side}") if side in row else 0
            for side in ("width", "height")
        ]
        sizes[id] = (sides[0], sides[1]) if min(sides) > 0 else (0, 0)
    return names, sizes


def known_image(row: Any, names: dict[str, str], where: str) -> str:
    id = identity(row, "image_id", where)
    if id not in names:
        raise DataError(f"{where}: its image {id} is not among the images of the file; add it")
    return id


def located(pictures: Pictures, name: str, size: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    """Path and size of an image; its file is opened only where the size is not known."""
    if not pictures:
        return "", size
    path = pictures.by_name(name)
    return str(path), size if any(size) else image_size(path)


def corners(row: Any, size: tuple[int, int], where: str) -> tuple[float, float, float, float]:
    left, top, width, height = numbers(get(row, "bbox", list, where), 4, f"{where}: bbox")
    return checked_box((left, top, left + width, top + height), size, where)


def category_names(content: Any, where: str) -> dict[str, str]:
    rows = get(content, "categories", list, where)
    return {identity(row, "id", f"{where}: categories"): get(row, "name", str, f"{where}: categories") for row in rows}


def _things(file: Path, sizes: Sizes, problems: Problems) -> dict[str, list[Thing]]:
    content = read_json(file)
    labels = category_names(content, str(file))
    things: dict[str, list[Thing]] = defaultdict(list)
    for number, row in enumerate(get(content, "annotations", list, str(file))):
        with problems.item():
            where = f"{file}: annotation {row.get('id', number) if isinstance(row, dict) else number}"
            id, category = identity(row, "image_id", where), identity(row, "category_id", where)
            if category not in labels:
                raise DataError(f"{where}: its category {category} is not among the categories of the file")
            if id in sizes:  # an instances file may have more images than have captions
                things[id].append(Thing(labels[category], corners(row, sizes[id], where)))
    return things


def _instances(captions: Path) -> Path:
    return captions.with_name(captions.name.replace("captions", "instances", 1))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    return sorted(path.glob("captions*.json")) or sorted(path.glob("annotations/captions*.json"))
