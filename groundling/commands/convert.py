"""`groundling convert`: grounded output of one model into another convention, or into plain JSON."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from groundling.commands.sizes import add_sizes, sizes_of

if TYPE_CHECKING:
    from groundling.commands.sizes import Sizes
    from groundling.formats.grounded import Grounded
    from groundling.formats.rows import BadRow, Row

DESCRIPTION = """\
Convert the grounded output of a model, phrases with boxes or points in its own notation, to JSON with the characters of
each phrase and boxes in pixels, or to the notation of another model.

FILE is `image<TAB>output` lines, CSV, JSON lines, or a JSON list (COCO results). `--list` shows the formats. Name the
format: Qwen2.5-VL and Qwen3-VL, for instance, write the same JSON with different units.

What cannot be read (half a tag, five numbers, text around JSON) is left out, counted on standard error, and listed with
--problems. The size of each image comes from --images, --size, or `width` and `height` of a row."""

EPILOG = """\
examples:
  groundling convert --list
  groundling convert kosmos.jsonl --from kosmos-2 --images photos/ -o boxes.jsonl
  groundling convert out.tsv --from qwen2.5-vl --images photos/ --max-pixels 12845056 --problems problems.jsonl
  groundling convert boxes.jsonl --to florence-2 --images photos/
  groundling convert out.jsonl --from paligemma --images photos/ --to groundling -o captions.jsonl
  groundling report captions.jsonl --images photos/"""

OURS = ("json", "groundling")  # what can be written beside the formats


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="outputs of a model")
    parser.add_argument(
        "--from",
        dest="source",
        default="plain",
        metavar="FORMAT",
        help="format of FILE (default: plain text, or JSON of groundling)",
    )
    parser.add_argument(
        "--to",
        dest="target",
        default="json",
        metavar="FORMAT",
        help="a format of --list; json: text, spans, boxes (default); groundling: what `groundling report` shows",
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="file to write JSON lines to (default: standard output)")
    parser.add_argument("--problems", metavar="FILE", help="also list what could not be read, as JSON lines")
    parser.add_argument("--strict", action="store_true", help="end with code 1 if anything could not be read")
    parser.add_argument("--list", action="store_true", help="show the formats, each with an example")
    add_sizes(parser)


@dataclass
class Tally:
    """What became of the rows of a file."""

    rows: int = 0
    bad_rows: int = 0
    with_problems: int = 0
    without_places: int = 0
    places: int = 0
    first: str = ""  # why the first bad row could not be read
    reasons: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


def run(args: argparse.Namespace) -> int:
    from groundling.commands.outputs import new_file
    from groundling.errors import DataError, GroundlingError
    from groundling.formats import FORMATS, format_of

    if args.list:
        for name, one in FORMATS.items():
            print(f"{name:12}{one.about}\n{'':12}{one.example}")
        return 0
    if args.file is None:
        raise GroundlingError("name a FILE of outputs, or ask for the formats with --list")
    format_of(args.source)
    if args.target not in OURS:
        format_of(args.target)
    sizes, tally = sizes_of(args), Tally()
    out, listed = (new_file(name, args.file) if name else None for name in (args.out, args.problems))
    with _opened(listed) as problems:
        lines = _lines(args, sizes, tally, problems)
        if first := next(lines, ""):  # else an earlier file stays
            with _opened(out) as file:
                (file or sys.stdout).writelines(chain([first], lines))
    _print_tally(tally)
    if not first:
        reason = tally.first or "the file holds none"
        raise DataError(f"{args.file}: no row could be read: {reason}; `groundling convert --help` shows what is read")
    return 1 if args.strict and (tally.bad_rows or tally.with_problems) else 0


def _lines(args: argparse.Namespace, sizes: Sizes, tally: Tally, problems: IO[str] | None) -> Iterator[str]:
    """The lines of the rows that can be read."""
    from groundling.errors import DataError
    from groundling.formats.rows import BadRow, read_rows

    for row in read_rows(args.file):
        tally.rows += 1
        if isinstance(row, BadRow):
            _bad(row, row.reason, tally, problems)
            continue
        try:
            line = _line(row, args, sizes, tally, problems)
        except DataError as error:
            _bad(row, str(error), tally, problems)
            continue
        yield _text(line)


def _line(row: Row, args: argparse.Namespace, sizes: Sizes, tally: Tally, problems: IO[str] | None) -> dict[str, Any]:
    from groundling import formats

    view = sizes.view(row)
    if row.places is None:
        grounded = formats.format_of(args.source).read(row.text, view)
    else:
        grounded = formats.Grounded(row.text, row.places)
    _count(row, grounded, tally, problems)
    if args.target == "json":
        return {"image": row.image, "width": view.width, "height": view.height, **grounded.to_dict()}
    if args.target == "groundling":
        from groundling.formats.ours import as_caption

        return as_caption(row.image, grounded, (view.width, view.height)).to_dict()
    written = formats.format_of(args.target).write(grounded, view)
    tally.left_out.update(written.left_out)
    return {"image": row.image, "width": view.width, "height": view.height, "text": written.text}


def _count(row: Row, grounded: Grounded, tally: Tally, problems: IO[str] | None) -> None:
    tally.places += len(grounded.places)
    tally.without_places += not grounded.places
    tally.with_problems += bool(grounded.problems)
    for one in grounded.problems:
        tally.reasons[_kind(one.reason)] += 1
        _list(problems, {"row": row.number, "image": row.image, "at": one.at, "reason": one.reason, "piece": one.piece})


def _bad(row: Row | BadRow, reason: str, tally: Tally, problems: IO[str] | None) -> None:
    tally.bad_rows += 1
    tally.first = tally.first or reason
    tally.reasons[_kind(reason)] += 1
    _list(problems, {"row": row.number, "reason": reason})


def _kind(reason: str) -> str:
    """A reason without its numbers and names, to be counted with others of its kind."""
    return re.sub(r"'[^']*'", "'…'", re.sub(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", reason))


def _list(problems: IO[str] | None, row: dict[str, Any]) -> None:
    if problems is not None:
        problems.write(_text(row))


def _text(row: dict[str, Any]) -> str:
    from groundling.commands.outputs import line

    return line(row).decode()


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[str] | None]:
    from groundling.files import saved

    if not path:
        yield None
        return
    with saved(path) as raw:
        file = TextIOWrapper(raw, "utf-8", newline="\n")
        yield file
        file.detach()  # it flushes; `saved` closes


def _print_tally(tally: Tally) -> None:
    line = f"{tally.rows} rows: {tally.places} places"
    line += f", {tally.without_places} rows without a place" if tally.without_places else ""
    line += f", {tally.with_problems} rows with problems" if tally.with_problems else ""
    line += f", {tally.bad_rows} rows that could not be read" if tally.bad_rows else ""
    print(line, file=sys.stderr)
    for reason, count in tally.reasons.most_common(12):
        print(f"{count:8}  {reason}", file=sys.stderr)
    for reason, count in tally.left_out.most_common():
        print(f"{count:8}  places left out: {reason}", file=sys.stderr)
