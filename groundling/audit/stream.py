"""Captions in, verdicts out, one JSON object at a time; memory does not grow with the number of captions.

Captions of one image are audited together, so that its regions are found once: rows are taken in windows, and within
a window image by image. What was written already is not audited again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from groundling import files
from groundling.audit import fix
from groundling.audit.auditor import Auditor, PhraseVerdict
from groundling.audit.verdicts import NOT_THERE
from groundling.errors import DataError
from groundling.evaluation.evidence import KEPT, parse
from groundling.formats import format_of
from groundling.formats.grounded import Grounded, Place, View, seen_by_qwen
from groundling.formats.rows import BadRow, Row
from groundling.tensors import Regions
from groundling.text.dependencies import trees
from groundling.types import Caption

FORMAT = 5  # raised when the same grounder would give other verdicts
WINDOW = 50_000  # rows that are put in order of their images
CHARACTERS = 50_000  # of a caption: what is longer is a model that went round in circles
BEGINNING = 1 << 24  # bytes of a first line that are looked at
LINE_BEGINS = b'{"row":'
IMAGES = KEPT // 2  # that are audited at a time


@dataclass(frozen=True)
class Reading:
    """How the captions are written, and what is done with them."""

    format: str = "plain"
    resized: tuple[int, int] | None = None  # Qwen2.5-VL: the size at which it saw the images
    max_pixels: int | None = None
    fix: str = ""  # "", DROP or HEDGE

    def grounded(self, row: Row, size: tuple[int, int]) -> Grounded:
        """The caption with places in pixels of an image of this size."""
        if row.places is not None:
            scale = (size[0] / row.size[0], size[1] / row.size[1]) if row.size else (1.0, 1.0)
            return Grounded(row.text, tuple(_scaled(place, *scale) for place in row.places))
        seen = row.seen or self.resized
        if seen is None and self.max_pixels:
            seen = seen_by_qwen(size, self.max_pixels)
        return format_of(self.format).read(row.text, View(*size, seen))


@dataclass(frozen=True)
class Item:
    """A caption that is about to be audited."""

    row: Row
    grounded: Grounded
    size: tuple[int, int]


def groups(rows: Iterable[Row | BadRow], done: dict[int, str] | None = None) -> Iterator[list[Row | BadRow]]:
    """Rows that are audited together: those of some images. Rows that cannot be read are a group of their own.

    `done`: row -> hash of what needs no verdict any more.
    """
    known = done or {}
    rest = iter(rows)
    while window := list(islice(rest, WINDOW)):
        bad: list[Row | BadRow] = []
        by_image: dict[str, list[Row]] = {}
        for row in window:
            if row.number in known:
                if known[row.number] != input_hash(row):
                    raise DataError(f"row {row.number} is not what was audited before: use --overwrite, or another -o")
            elif isinstance(row, BadRow):
                bad.append(row)
            else:
                by_image.setdefault(row.image, []).append(row)
        if bad:
            yield bad
        each = iter(by_image.values())
        while some := list(islice(each, IMAGES)):
            yield [row for group in some for row in group]


def audit_rows(
    auditor: Auditor, look: Callable[[str], Regions], reading: Reading, by: str, rows: Sequence[Row | BadRow]
) -> list[dict[str, Any]]:
    """The lines of one group; see docs/audit.md. `by` is the signature of auditor and reading."""
    items, lines = list[Item](), list[dict[str, Any]]()
    for row in rows:
        if isinstance(row, BadRow):
            lines.append({"row": row.number, "input": input_hash(row), "error": row.reason})
            continue
        try:
            regions = look(row.image)
            if not regions.valid.any():
                raise DataError(f"{row.image}: no region was found in it")
            width, height = (round(side) for side in regions.size[0].tolist())
            items.append(Item(row, _bounded(reading.grounded(row, (width, height))), (width, height)))
        except DataError as error:
            about = {"row": row.number, "input": input_hash(row), "image": row.image, "caption": row.text}
            lines.append(about | {"error": str(error)})
    captions = parse([item.grounded.text for item in items], stops=True)
    verdicts = [
        auditor.audit(look(item.row.image), caption, item.grounded.places)
        for item, caption in zip(items, captions, strict=True)
    ]
    fixed = _fixed(captions, verdicts, reading.fix) if reading.fix else [None] * len(items)
    return lines + [_line(*each, by) for each in zip(items, verdicts, fixed, strict=True)]


def _bounded(grounded: Grounded) -> Grounded:
    if len(grounded.text) > CHARACTERS:
        raise DataError(f"a caption of {len(grounded.text):,} characters, at most {CHARACTERS:,} are read; shorten it")
    return grounded


def _line(item: Item, verdicts: Sequence[PhraseVerdict], fixed: str | None, by: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "row": item.row.number,
        "input": input_hash(item.row),
        "image": item.row.image,
        "caption": item.grounded.text,
        "width": item.size[0],
        "height": item.size[1],
        "phrases": [one.to_dict() for one in verdicts],
        "by": by,
    }
    if item.grounded.problems:
        row["problems"] = [{"reason": one.reason, "piece": one.piece} for one in item.grounded.problems]
    return row if fixed is None else row | {"fixed": fixed}


def _fixed(captions: Sequence[Caption], verdicts: Sequence[Sequence[PhraseVerdict]], way: str) -> list[str | None]:
    wrong = [[one.span for one in found if one.verdict == NOT_THERE] for found in verdicts]
    if way == fix.HEDGE:
        return [fix.hedge(caption.text, spans) for caption, spans in zip(captions, wrong, strict=True)]
    some = iter(trees([caption for caption, spans in zip(captions, wrong, strict=True) if spans]))
    return [
        fix.drop(caption, next(some), spans) if spans else caption.text
        for caption, spans in zip(captions, wrong, strict=True)
    ]


def _scaled(place: Place, across: float, down: float) -> Place:
    boxes = tuple((x1 * across, y1 * down, x2 * across, y2 * down) for x1, y1, x2, y2 in place.boxes)
    return Place(place.span, boxes, tuple((x * across, y * down) for x, y in place.points))


def input_hash(row: Row | BadRow) -> str:
    """Which caption of which image a row was."""
    told = row.reason if isinstance(row, BadRow) else f"{row.image}\n{row.text}"
    return hashlib.sha256(told.encode(errors="replace")).hexdigest()[:12]


def signature(auditor: Auditor, reading: Reading) -> str:
    """By which grounder, evidence, thresholds and reading of captions verdicts are given: the beginning of a hash."""
    evidence = auditor.grounder.calibration.to_json() if auditor.grounder.calibration else None
    told = json.dumps([FORMAT, auditor.grounder.model.digest, evidence, auditor.thresholds.to_json(), asdict(reading)])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


# ---------------------------------------------------------------- what is written already


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of an audit; DataError names one that is none."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield _parsed(line, path, number)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def check(path: Path) -> None:
    """DataError for what no audit wrote, whose end may not be cut off as an unfinished line."""
    with files.reading(path), path.open("rb") as file:
        first = file.readline(BEGINNING)
    if first.endswith(b"\n"):
        _parsed(first.decode(errors="replace"), path, 1)
    elif not LINE_BEGINS.startswith(first[: len(LINE_BEGINS)]):
        raise _foreign(path, 1)


def _parsed(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        match json.loads(line):
            case {"row": int(), **rest} as row if isinstance(rest.get("phrases", []), list):
                return row | {"phrases": [_renamed(one) for one in row["phrases"]]} if "phrases" in row else dict(row)
    except (ValueError, RecursionError):
        pass
    raise _foreign(path, number)


def _foreign(path: Path, number: int) -> DataError:
    return DataError(f"{path}: line {number} is no line of an audit: name a file that `groundling audit` wrote")


def _renamed(phrase: Any) -> Any:
    """A phrase of an audit by this version's names: evidence was called probability."""
    if not isinstance(phrase, dict) or "probability" not in phrase:
        return phrase
    return {"evidence" if name == "probability" else name: value for name, value in phrase.items()}


def written(path: Path, by: str) -> dict[int, str]:
    """row -> hash of what an audit has verdicts on already; DataError where another grounder or other options did."""
    done: dict[int, str] = {}
    for line in read_lines(path):
        if line.get("by", by) != by:
            raise DataError(
                f"{path} has verdicts of another grounder or of other options: use --overwrite, or another -o"
            )
        done[line["row"]] = str(line.get("input", ""))
    return done
