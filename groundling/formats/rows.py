"""Files of captions, row by row: an image and its caption.

    image<TAB>caption     one row per line
    CSV                   with a header that names the columns, or the image first and the caption second
    JSON lines            {"image": ..., "caption": ...}; what `groundling caption` and `groundling convert` write
    JSON                  a list of such objects (COCO results), {"annotations": [...]}, or {image: caption}

Rows come one at a time: only a JSON list is held in memory as a whole. A row that cannot be read is given as `BadRow`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from groundling.errors import DataError, GroundlingError
from groundling.formats.grounded import Place, grounded_of
from groundling.types import GroundedCaption

IMAGE = ("image", "image_id", "file_name", "filename", "file", "img", "media", "id")  # the first that a row has
TEXT = ("caption", "text", "output", "response", "prediction", "answer", "generated_text")
LINE = 8_000_000  # characters of a line
JSON_CHARACTERS = 1_000_000_000  # of a JSON file that is not JSON lines


@dataclass(frozen=True)
class Row:
    """The caption of one image, as it is in the file."""

    number: int  # of the line, or of the object in a list; from 1
    image: str
    text: str
    size: tuple[int, int] | None = None  # of the image, where the row has it
    seen: tuple[int, int] | None = None  # at which the model saw it
    places: tuple[Place, ...] | None = None  # where the row is our own and has them already


@dataclass(frozen=True)
class BadRow:
    number: int
    reason: str


def read_rows(path: str | Path) -> Iterator[Row | BadRow]:
    """The rows of a file; DataError where it cannot be opened or is no such file at all."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            yield from _rows(path, file)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _rows(path: Path, file: IO[str]) -> Iterator[Row | BadRow]:
    if path.suffix.lower() == ".csv":
        return _csv(file)
    lines = _lines(file)
    number, first = next(((n, line) for n, line in lines if line is None or line.strip()), (0, None))
    rest = chain([(number, first)], lines) if number else iter(())
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _json_lines(rest)
    start = (first or "").lstrip()[:1]
    if start == "[" or (start == "{" and _parsed(first or "") is None):
        file.seek(0)
        return _json_file(path, file)
    if start == "{":
        return _json_lines(rest)
    return (_tabbed(n, line) for n, line in rest if line is None or line.strip())


def _lines(file: IO[str]) -> Iterator[tuple[int, str | None]]:
    """Numbered lines; None for one that is longer than LINE."""
    number = 0
    while line := file.readline(LINE):
        number += 1
        if len(line) == LINE and not line.endswith("\n"):
            while (more := file.readline(LINE)) and not more.endswith("\n"):
                pass
            yield number, None
        else:
            yield number, line


def _too_long(number: int) -> BadRow:
    return BadRow(number, f"longer than {LINE:,} characters")


# ---------------------------------------------------------------- tabs and commas


def _tabbed(number: int, line: str | None) -> Row | BadRow:
    if line is None:
        return _too_long(number)
    image, tab, text = line.rstrip("\r\n").partition("\t")
    if not tab:
        return BadRow(number, "no tab: expected image<TAB>caption")
    return Row(number, image.strip(), text)


def _csv(file: IO[str]) -> Iterator[Row | BadRow]:
    reader = csv.reader(file)
    columns: tuple[int, int] | None = None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRow(reader.line_num, f"not CSV: {error}")
            continue
        if not cells:
            continue
        if columns is None:
            header = _columns(cells)
            columns = header or (0, 1)
            if header:
                continue
        if len(cells) <= max(columns):
            yield BadRow(reader.line_num, f"{len(cells)} columns, expected {max(columns) + 1} or more")
        else:
            yield Row(reader.line_num, cells[columns[0]].strip(), cells[columns[1]])


def _columns(cells: list[str]) -> tuple[int, int] | None:
    """Where a header has the image and the caption; None where it is no header."""
    names = [cell.strip().lower() for cell in cells]
    image = next((names.index(name) for name in IMAGE if name in names), None)
    text = next((names.index(name) for name in TEXT if name in names), None)
    return None if image is None or text is None else (image, text)


# ---------------------------------------------------------------- JSON


def _json_lines(lines: Iterator[tuple[int, str | None]]) -> Iterator[Row | BadRow]:
    for number, line in lines:
        if line is None:
            yield _too_long(number)
        elif line.strip():
            row = _parsed(line)
            yield _object(number, row) if isinstance(row, dict) else BadRow(number, "not a JSON object")


def _json_file(path: Path, file: IO[str]) -> Iterator[Row | BadRow]:
    text = file.read(JSON_CHARACTERS + 1)
    if len(text) > JSON_CHARACTERS:
        raise DataError(f"{path}: more than {JSON_CHARACTERS:,} characters of JSON: make it JSON lines")
    found = _parsed(text)
    if isinstance(found, dict) and isinstance(found.get("annotations"), list):
        found = found["annotations"]
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        found = [{"image": image, "caption": value} for image, value in found.items()]
    if not isinstance(found, list):
        raise DataError(f"{path}: not JSON lines, nor a JSON list of captions; see `groundling convert --help`")
    for number, row in enumerate(found, start=1):
        yield _object(number, row) if isinstance(row, dict) else BadRow(number, "not a JSON object")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object(number: int, row: Mapping[str, Any]) -> Row | BadRow:
    image = next((row[key] for key in IMAGE if isinstance(row.get(key), str | int) and row[key] != ""), None)
    caption = next((row[key] for key in TEXT if row.get(key) is not None), None)
    if image is None or isinstance(image, bool):
        return BadRow(number, f"names no image: expected one of {', '.join(IMAGE)}")
    if caption is None:
        return BadRow(number, f"has no caption: expected one of {', '.join(TEXT)}")
    text = caption if isinstance(caption, str) else json.dumps(caption)
    try:
        places = _places(row)
    except (GroundlingError, ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
        return BadRow(number, f"its places cannot be read: {error}")
    size = _size(row, "width", "height") or _listed_size(row.get("size"))
    return Row(number, str(image), text, size, _size(row, "resized_width", "resized_height"), places)


def _places(row: Mapping[str, Any]) -> tuple[Place, ...] | None:
    if isinstance(row.get("places"), list):
        return grounded_of(row).places
    if isinstance(row.get("links"), list) and isinstance(row.get("caption"), str):
        links = GroundedCaption.from_dict({"id": "", **row}).links
        return tuple(Place(link.span, (link.box,)) for link in links)
    return None


def _size(row: Mapping[str, Any], *keys: str) -> tuple[int, int] | None:
    return _listed_size([row.get(key) for key in keys])


def _listed_size(value: Any) -> tuple[int, int] | None:
    match value:
        case [int(width), int(height)] if 0 < width < 1_000_000 and 0 < height < 1_000_000:
            return width, height
    return None
