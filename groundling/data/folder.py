"""A folder of images or videos with captions in a table: CSV, TSV or JSON lines. What people bring of their own.

    image,caption                          {"image": "a.jpg", "captions": ["A dog.", "A dog runs."], "split": "val"}
    a.jpg,A dog runs.                      {"image": "b.jpg", "caption": "Two boys."}

An image may have many rows. `id` and `split` are optional; without `id`, the name of the image without its suffix is
its id. The split may also be in the name of the table: `train.csv`, `captions_val.jsonl`. Images are beside the table,
at the path that it gives, or in a folder such as `images`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from groundling.data.checks import Problems, checked_caption, expect, identity, parse_json
from groundling.data.pictures import SUFFIXES, Pictures
from groundling.data.splits import canonical, from_file_name
from groundling.errors import DataError
from groundling.files import read_text, tab_rows
from groundling.types import Caption, Example
from groundling.video import SUFFIXES as VIDEOS

FORMAT = "captions in a table"
LOOKS_FOR = "a .csv, .tsv or .jsonl file with the columns image and caption, or a folder with such files"

TABLES = {".csv", ".tsv", ".jsonl", ".ndjson"}
NAMES = {  # column -> what people call it
    "image": (
        "image",
        "file",
        "file_name",
        "filename",
        "image_name",
        "path",
        "image_path",
        "filepath",
        "video",
        "clip",
        "media",  # of `groundling caption`
    ),
    "caption": ("caption", "captions", "text", "sentence", "description", "comment"),
    "id": ("id", "image_id"),
    "split": ("split",),
}


@dataclass
class Row:
    """One image while its rows are being collected."""

    name: str
    split: str
    where: str  # file and line of its first caption
    captions: list[Caption] = field(default_factory=list)


def claims(path: Path) -> bool:
    return bool(annotation_files(path))


def read(path: Path, problems: Problems) -> list[Example]:
    tables = annotation_files(path)
    rows: dict[str, Row] = {}
    for table in tables:
        for where, row in _rows(table, problems):
            with problems.item():
                _collect(row, from_file_name(table), where, rows)
    pictures = Pictures(tables[0].parent)
    examples = []
    for id, rest in rows.items():
        with problems.item():
            media, size = _media(pictures, rest)
            examples.append(Example(id, media, size, tuple(rest.captions), split=rest.split))
    return examples


def _media(pictures: Pictures, row: Row) -> tuple[str, tuple[int, int]]:
    try:
        return pictures.media(row.name)
    except DataError as error:
        raise DataError(f"{row.where}: {error}") from error


def annotation_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix.lower() in TABLES else []
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in TABLES)
    named = [file for file in files if "caption" in file.stem.lower() or from_file_name(file)]
    return named or (files if len(files) == 1 else [])


def _collect(row: dict[str, Any], split: str, where: str, rows: dict[str, Row]) -> None:
    name = expect(row.get("image", ""), str, f"{where}: image")
    id = identity(row, "id", where) if row.get("id") not in (None, "") else PurePosixPath(name).stem
    if not id:
        raise DataError(f"{where}: no image is named")
    split = canonical(expect(row.get("split") or split, str, f"{where}: split"))
    known = rows.get(id)
    if known is not None and known.name != name:
        raise DataError(f"{where}: the images {known.name} and {name} share the id {id!r}; add a column id")
    if known is not None and known.split != split:
        raise DataError(f"{where}: image {id} is in the split {split!r} here, in {known.split!r} before")
    caption = row.get("caption")
    texts = caption if isinstance(caption, list) else [caption]
    captions = [checked_caption(expect(text, str, f"{where}: caption"), where) for text in texts]
    rows.setdefault(id, Row(name or id, split, where)).captions.extend(captions)


def _rows(table: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each row is, and its values under our names."""
    text = read_text(table)
    if table.suffix.lower() in (".csv", ".tsv"):
        yield from _separated(text, table, problems)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{table}, line {number}"
            with problems.item():
                row = expect(parse_json(line, where), dict, where)
                columns = _columns([str(key) for key in row], where)
                yield where, {ours: row[theirs] for ours, theirs in columns.items()}


def _separated(text: str, table: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    header = text.split("\n", 1)[0]
    separator = max("\t" if table.suffix.lower() == ".tsv" else ",;|\t", key=header.count)
    file = io.StringIO(text, newline="")
    lines = csv.reader(file, delimiter=separator, strict=True)
    rows = tab_rows(file) if separator == "\t" else ((lines.line_num, cells) for cells in lines)
    names: list[str] = []
    try:
        for number, cells in rows:
            where = f"{table}, line {number}"
            if not names:
                names = [cell.strip() for cell in cells]
                if Path(names[0] if names else "").suffix.lower() not in SUFFIXES | VIDEOS:
                    columns = _columns(names, where)
                    continue
                names, columns = ["image", "caption"], {"image": "image", "caption": "caption"}  # no header
            if not any(cells):
                continue
            if len(cells) != len(names):
                problems.report(f"{where}: {len(cells)} values for {len(names)} columns; put quotes around a caption")
                continue
            row = dict(zip(names, (cell.strip() for cell in cells), strict=True))
            yield where, {ours: row[theirs] for ours, theirs in columns.items()}
    except csv.Error as error:
        raise DataError(f"{table}, line {lines.line_num}: not a table ({error}); are all quotes closed?") from error


def _columns(names: list[str], where: str) -> dict[str, str]:
    """Our name -> their name of each column; DataError unless image (or id) and caption are there."""
    lower = {name.lower(): name for name in reversed(names)}
    columns = {ours: next((lower[n] for n in theirs if n in lower), None) for ours, theirs in NAMES.items()}
    if columns["caption"] is None or (columns["image"] is None and columns["id"] is None):
        raise DataError(f"{where}: expected columns image and caption, got {', '.join(names)[:100] or 'nothing'}")
    return {ours: theirs for ours, theirs in columns.items() if theirs is not None}
