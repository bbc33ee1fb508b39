"""Captions that a system made, from a file: our JSON lines, or a COCO results list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from groundling.errors import DataError
from groundling.files import Place, parse_json, read_lines, read_text
from groundling.text.words import caption as as_caption
from groundling.types import GroundedCaption


def read_captions(path: str | Path) -> list[GroundedCaption]:
    """One caption per image: JSON lines of {"id", "caption", "tokens", "links", ...}, or [{"image_id", "caption"}].

    Without "tokens" a caption's words are found in its text. An image with two captions is an error.
    """
    start = read_text(path).lstrip()[:1]
    if start == "[":
        rows = Place(path).expect(parse_json(read_text(path), str(path)), list)
        found = [_result(row, Place(path, "caption", i)) for i, row in enumerate(rows)]
    else:
        found = [
            _line(parse_json(line, f"{path}: line {n}"), Place(f"{path}: line {n}")) for n, line in read_lines(path)
        ]
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise DataError(f"{path}: image {one.id!r} has two captions; keep one")
        seen.add(one.id)
    if not found:
        raise DataError(f"{path}: holds no captions")
    return found


def _result(row: Any, place: Place) -> GroundedCaption:
    return _worded(GroundedCaption(place.id(row, "image_id"), place.get(row, "caption", str), (), ()))


def _line(row: Any, place: Place) -> GroundedCaption:
    if "image_id" in place.expect(row, dict) and "id" not in row:
        return _result(row, place)
    place.get(row, "caption", str)
    try:
        return _worded(GroundedCaption.from_dict(row))
    except (DataError, AttributeError, OverflowError) as error:
        raise place.error(str(error)) from error


def _worded(caption: GroundedCaption) -> GroundedCaption:
    if caption.tokens:
        return caption
    words = as_caption(caption.text)
    return replace(caption, tokens=words.tokens, spans=words.spans)
