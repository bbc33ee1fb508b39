"""Caption files from outside: COCO results, our JSON lines, COCO references.

Rules. An image id is an integer or a string, and 7 and "7" are the same image. A caption may be empty, and may hold
any characters (`text/ptb.py` says what becomes of separators of lines). Everything else that is odd is a DataError:
an image predicted twice, a caption that is no string, a reference to an image that the file does not list.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groundling.errors import DataError
from groundling.files import Location, Source, parse_json, read_json, read_text


def read_predictions(source: Source) -> dict[str, str]:
    """One caption per image, from a list of {"image_id", "caption"} (COCO results), or from JSON lines of the same or
    of {"id", "caption"} (what `groundling caption` writes)."""
    rows, name = _rows(source)
    captions: dict[str, str] = {}
    for i, row in enumerate(rows):
        location = Location(name, f"prediction {i}")
        key = "image_id" if "image_id" in location.expect(row, dict) or "id" not in row else "id"
        image = location.id(row, key)
        if image in captions:
            raise location.error(f"image {image} is predicted a second time; keep one caption per image")
        captions[image] = location.get(row, "caption", str)
    if not captions:
        raise DataError(f"{name}: holds no predictions")
    return captions


def read_references(source: Source) -> dict[str, list[str]]:
    """The captions of each image, from a COCO captions file: {"images": [{"id"}], "annotations": [{"image_id",
    "caption"}]}. Without "images" the images are those of the annotations. An image may have no captions."""
    file, name = read_json(source, "references")
    location = Location(name)
    captions: dict[str, list[str]] = {}
    if not isinstance(file, dict):
        raise location.error('references are COCO captions JSON, {"images": […], "annotations": […]}; this is a list')
    listed = "images" in file
    for i, row in enumerate(location.get(file, "images", list) if listed else ()):
        image = location.at("images", i).id(row, "id")
        if image in captions:
            raise location.at("images", i).error(f"image {image} is listed a second time; keep one")
        captions[image] = []
    for i, row in enumerate(location.get(file, "annotations", list)):
        at = location.at("annotations", i)
        image = at.id(row, "image_id")
        if listed and image not in captions:
            raise at.error(f"is of image {image}, which is not among the images")
        captions.setdefault(image, []).append(at.get(row, "caption", str))
    return captions


def read_file_names(source: Source) -> dict[str, str]:
    """image id -> its `file_name`, of the images of a COCO captions file that have one. Several may share a file."""
    file, name = read_json(source, "references")
    rows = Location(name).expect(file, dict).get("images", [])
    return {
        Location(name, "images", i).id(row, "id"): Location(name, "images", i).get(row, "file_name", str)
        for i, row in enumerate(Location(name, "images").expect(rows, list))
        if "file_name" in Location(name, "images", i).expect(row, dict)
    }


def _rows(source: Source) -> tuple[list[Any], str]:
    """The members of a JSON list, or of JSON lines."""
    if not isinstance(source, str | Path):
        return Location("predictions").expect(source, list), "predictions"
    text = read_text(source)
    if not text.lstrip().startswith("{"):
        return Location(source).expect(parse_json(text, str(source)), list), str(source)
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    return [parse_json(line, f"{source}, line {n}") for n, line in lines], str(source)
