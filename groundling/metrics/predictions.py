"""Captions that a system made, from a file: our JSON lines, or a COCO results list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from groundling.errors import DataError
from groundling.files import Location, parse_json, read_lines, read_text
from groundling.text.words import caption as as_caption
from groundling.types import GroundedCaption


def read_captions(path: str | Path) -> list[GroundedCaption]:
    """One caption per image: JSON lines of {"id", "caption", "tokens", "links", ...}, or [{"image_id", "caption"}].

    Without "tokens" a caption's words are found in its text. An image with two captions is an error.
    """
    start = read_text(path).lstrip()[:1]
    if start == "[":
        rows = Location(path).expect(parse_json(read_text(path), str(path)), list)
        captions = [_result(row, Location(path, "caption", i)) for i, row in enumerate(rows)]
    else:
        captions = [
            _line(parse_json(line, f"{path}: line {n}"), Location(f"{path}: line {n}")) for n, line in read_lines(path)
        ]
    seen: set[str] = set()
    for one in captions:
        if one.id in seen:
            raise DataError(f"{path}: image {one.id!r} has two captions; keep one")
        seen.add(one.id)
    if not captions:
        raise DataError(f"{path}: holds no captions")
    return captions


def _result(row: Any, location: Location) -> GroundedCaption:
    return _worded(GroundedCaption(location.id(row, "image_id"), location.get(row, "caption", str), (), ()))


def _line(row: Any, location: Location) -> GroundedCaption:
    if "image_id" in location.expect(row, dict) and "id" not in row:
        return _result(row, location)
    location.get(row, "caption", str)
    try:
        return _worded(GroundedCaption.from_dict(row))
    except (DataError, AttributeError, OverflowError) as error:
        raise location.error(str(error)) from error


def _worded(caption: GroundedCaption) -> GroundedCaption:
    if caption.tokens:
        return caption
    words = as_caption(caption.text)
    return replace(caption, tokens=words.tokens, spans=words.spans)
