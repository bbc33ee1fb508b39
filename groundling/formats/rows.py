"""Files of captions, row by row: an image and its caption.

    image<TAB>caption     one row per line; with a header, as CSV
    CSV                   with a header that names the columns, or the image first and the caption second
    JSON lines            {"image": ..., "caption": ...}; what `groundling caption` and `groundling convert` write
    JSON                  a list of such objects (COCO results), {"annotations": [...]} with or without "images"
                          (COCO captions), or {image: caption}

Rows come one at a time: only such a JSON file is held in memory as a whole. A row that cannot be read is given as
`BadRow`.
"""

from __future__ import annotations

import csv
import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from groundling.errors import DataError, GroundlingError
from groundling.files import shown, tab_rows
from groundling.formats.grounded import Place, grounded_of
from groundling.types import GroundedCaption

IMAGE = ("image", "image_id", "file_name", "filename", "file", "img", "media", "id")  # the first that a row has
TEXT = ("caption", "text", "output", "response", "prediction", "answer", "generated_text")
JSON = (
    f"objects with an image ({', '.join(IMAGE)}) and a caption ({', '.join(TEXT)}), as JSON lines or a list, "
    "or one object {image: caption}"
)
LINE = 8_000_000  # characters of a line
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what `surrogateescape` makes of bytes that are none
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
    file: str = ""  # the name of the image's file, where the captions have it beside another name


@dataclass(frozen=True)
class BadRow:
    number: int
    reason: str


def read_rows(path: str | Path) -> Iterator[Row | BadRow]:
    """The rows of a file; DataError where it cannot be opened or is no such file at all."""
    path = Path(path)
    try:
        with path.open("rb") as raw:
            beginning = raw.peek(8)
            if beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise DataError(f"{path}: UTF-16, expected UTF-8: save the file as UTF-8")
            file = TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="")
            start = beginning.removeprefix(BOM_UTF8).lstrip()[:1].decode("latin-1")
            yield from map(_in_utf8, _rows(path, file, start))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _rows(path: Path, file: IO[str], start: str) -> Iterator[Row | BadRow]:
    """The rows of an open file, whose first character is `start`."""
    if path.suffix.lower() == ".csv":
        return _csv(file)
    lines = ((n, line) for n, line in _lines(file) if line is None or line.strip())
    some = list(islice(lines, 2))
    rest = chain(some, lines)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _json_lines(rest)
    first = some[0][1] if some else ""
    whole = _parsed(first) if first and start == "{" else None
    if start == "[" or (start == "{" and whole is None):
        file.seek(0)
        return _json_file(path, file)
    if start == "{":
        return _in_json(path, whole) if len(some) == 1 and _is_no_row(whole) else _json_lines(rest)
    if first and _separator(first):
        file.seek(0)
        return _csv(file)
    return (_tabbed(n, line) for n, line in rest)


def _in_utf8(row: Row | BadRow) -> Row | BadRow:
    if isinstance(row, Row) and NOT_UTF8.search(row.image + row.text):
        return BadRow(row.number, "not UTF-8; save the file as UTF-8")
    return row


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


def _csv(lines: Iterable[str]) -> Iterator[Row | BadRow]:
    rest = iter(lines)
    number, first = next(((n, line) for n, line in enumerate(rest) if line.strip()), (0, ""))
    separator = _separator(first) or ","
    whole = chain("\n" * number, [first], rest)
    columns: tuple[int, int] | None = None
    for number, cells in tab_rows(whole) if separator == "\t" else _csv_rows(whole, separator):
        if isinstance(cells, str):
            yield BadRow(number, cells)
            continue
        if cells in ([], [""]):  # a blank line
            continue
        if columns is None:
            header = _columns(cells)
            columns = header or (0, 1)
            if header:
                continue
        if len(cells) <= max(columns):
            told = f"{len(cells)} columns, expected {max(columns) + 1} or more with {separator!r} between them"
            yield BadRow(number, told)
        else:
            yield Row(number, cells[columns[0]].strip(), cells[columns[1]])


def _csv_rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str] | str]]:
    """The number of the last line of each row, with its cells, or why it has none."""
    of_row = list[str]()
    reader = csv.reader(_kept(lines, of_row), delimiter=separator)
    while True:
        of_row.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield reader.line_num, f"not CSV: {error}"
            continue
        if len(of_row) > 1 and not _is_strict(of_row, separator):
            yield reader.line_num, f"a quote that is not closed runs over {len(of_row)} lines; close it"
        else:
            yield reader.line_num, cells


def _separator(header: str) -> str:
    """What stands between the columns that a header names; "" where it is no header."""
    with suppress(csv.Error):  # longer than a cell may be
        return next((one for one in ",;\t|" if _columns(next(csv.reader([header], delimiter=one), []))), "")
    return ""


def _kept(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    for line in lines:
        kept.append(line)
        yield line


def _is_strict(lines: list[str], separator: str) -> bool:
    """Is a row of several lines one by the rules, all of its quotes closed?"""
    try:
        return len(list(csv.reader(lines, delimiter=separator, strict=True))) == 1
    except csv.Error:
        return False


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
    yield from _in_json(path, _parsed(text))


def _is_no_row(found: Any) -> bool:
    return isinstance(found, dict) and not found.keys() & {*IMAGE, *TEXT}


def _in_json(path: Path, found: Any) -> Iterator[Row | BadRow]:
    names: dict[str, Any] = {}
    if isinstance(found, dict) and isinstance(found.get("annotations"), list):
        names, found = _file_names(found.get("images")), found["annotations"]
    if isinstance(found, dict) and not _is_no_row(found):  # one row, written over several lines
        found = [found]
    elif isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        found = [{"image": image, "caption": value} for image, value in found.items()]
    if not isinstance(found, list):
        odd = next((item for item in (found or {}).items() if not isinstance(item[1], str)), None)
        got = f"{odd[0]!r:.40} is {shown(odd[1], 40)}, which is no caption" if odd else "not JSON"
        raise DataError(f"{path}: {got}; expected {JSON}")
    for number, row in enumerate(found, start=1):
        if isinstance(row, dict):
            yield _object(number, {"file_name": names.get(str(row.get("image_id")))} | row)
        else:
            yield BadRow(number, "not a JSON object")


def _file_names(images: Any) -> dict[str, Any]:
    """What the images of COCO captions call their files, by id."""
    rows = images if isinstance(images, list) else []
    return {str(row.get("id")): row.get("file_name") for row in rows if isinstance(row, dict)}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object(number: int, row: Mapping[str, Any]) -> Row | BadRow:
    image = next((row[key] for key in IMAGE if isinstance(row.get(key), str | int) and row[key] != ""), None)
    caption = next((row[key] for key in TEXT if row.get(key) is not None), None)
    if image is None or isinstance(image, bool):
        return BadRow(number, f"names no image; expected one of {', '.join(IMAGE)}")
    if caption is None or isinstance(caption, int | float):
        wrong = "has no caption" if caption is None else f"its caption is {caption!r:.40}"
        return BadRow(number, f"{wrong}; expected a text as one of {', '.join(TEXT)}")
    text = caption if isinstance(caption, str) else json.dumps(caption)
    try:
        places = _places(row)
    except (GroundlingError, ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
        return BadRow(number, f"its places cannot be read: {error}")
    size = _size(row, "width", "height") or _listed_size(row.get("size"))
    file = name if isinstance(name := row.get("file_name"), str) and name != image else ""
    return Row(number, str(image), text, size, _size(row, "resized_width", "resized_height"), places, file)


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
