"""`groundling audit`: is each noun of a caption really in its image?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands import add_engine, engine_of
from groundling.commands.sizes import add_seen

if TYPE_CHECKING:
    from groundling.audit import Auditor, stream
    from groundling.audit.summary import Summary
    from groundling.data.dataset import Dataset
    from groundling.formats.rows import BadRow, Row
    from groundling.parallel import Engine

    AuditRows = Callable[[Sequence[Row | BadRow]], list[dict[str, Any]]]

SHOWN = 12  # captions that are printed with their verdicts; of more, the summary alone
DESCRIPTION = f"""\
Check captions of any origin: is each noun in its image, and is its box right? Every noun phrase gets a verdict:

  grounded      it is likely in the image
  wrong place   the caption has a box or a point for it, which overlaps none of its likely boxes
  not there     it is unlikely in the image
  cannot tell   the grounder never learned the word, nor a synonym or a broader kind of it (WordNet), or learned it
                from too few photos to say that it is not there

CAPTIONS is `image<TAB>caption` lines, CSV, JSON lines or a COCO results list; with --format it is the grounded output
of a model (`groundling convert --list`). The command writes JSON lines, one per caption (docs/audit.md), prints a
summary with 95 % intervals, and with --html writes a page, worst captions first. Up to {SHOWN} captions are also
printed with their verdicts. If an audit is stopped, the same command continues it.

The grounder learned from everyday photos. On other images its verdicts are less reliable (docs/audit.md)."""

EPILOG = """\
examples:
  groundling audit captions.tsv --images photos/ --html audit.html
  groundling audit kosmos.jsonl --format kosmos-2 --images photos/ -o kosmos.audit.jsonl
  groundling audit results.json --images val2014/ --fail-over 0.1      # for CI: code 1 if over a tenth is not there
  groundling audit b.jsonl --images photos/ -o b.audit.jsonl --compare a.audit.jsonl
  groundling audit captions.csv --images photos/ --fix drop            # captions without what is not there
  groundling audit --data flickr8k --split val --regions flickr8k.regions
  groundling audit captions.tsv --images /shared/photos --engine ray --address auto --workers 64"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from groundling.commands import whole_number

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("captions", nargs="?", type=Path, metavar="CAPTIONS", help="captions to check")
    parser.add_argument("--images", metavar="FOLDER", help="the images, each found by its name")
    parser.add_argument(
        "--data", metavar="DATA", help="a data set of images, whose captions are checked where no CAPTIONS are named"
    )
    parser.add_argument("--split", metavar="NAME", help="only this split of DATA")
    parser.add_argument("--regions", metavar="STORE", help="region store of the images, to save time")
    parser.add_argument(
        "--format", default="plain", metavar="NAME", help="format of the captions (default: plain text)"
    )
    parser.add_argument(
        "--model", default="", metavar="RUN", help="a grounder that you trained (default: the package's)"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument(
        "--not-there-below",
        type=float,
        metavar="X",
        help="evidence below which a noun is not there (default: the grounder's own threshold, chosen so that about "
        "one in twenty nouns that are there is below it)",
    )
    group = parser.add_argument_group("what comes out")
    group.add_argument("-o", "--out", default="audit.jsonl", metavar="FILE", help="JSON lines (default %(default)s)")
    group.add_argument("--overwrite", action="store_true", help="check all captions again, even if FILE has verdicts")
    group.add_argument("--html", metavar="FILE", help="also write an HTML page")
    group.add_argument(
        "--limit",
        type=whole_number(1),
        default=300,
        metavar="N",
        help="captions on the page, the worst first (default 300)",
    )
    group.add_argument(
        "--fix", choices=("drop", "hedge"), help="also correct captions: drop what is not there, or hedge it"
    )
    group.add_argument(
        "--compare", type=Path, metavar="AUDIT", help="compare with the audit of another system, a file that -o wrote"
    )
    group.add_argument(
        "--fail-over", type=float, metavar="X", help="end with code 1 if more than this share of all nouns is not there"
    )
    group.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_seen(parser.add_argument_group("Qwen2.5-VL"))
    add_engine(parser)


def run(args: argparse.Namespace) -> int:
    from groundling.audit import Auditor
    from groundling.audit.summary import summarise
    from groundling.commands.outputs import new_file
    from groundling.errors import GroundlingError
    from groundling.formats import format_of
    from groundling.images import SUFFIXES
    from groundling.inference import load_grounder

    if not (args.captions or args.data):
        raise GroundlingError("name a file of CAPTIONS, or a data set with --data")
    if args.captions and Path(args.captions).suffix.lower() in SUFFIXES:
        raise GroundlingError(f"{args.captions} is a picture: name the file of its CAPTIONS, and --images FOLDER")
    if args.fail_over is not None and not 0 <= args.fail_over <= 1:
        raise GroundlingError(f"--fail-over takes a share from 0 to 1, got {args.fail_over:g}")
    if args.not_there_below is not None and not 0 <= args.not_there_below <= 1:
        raise GroundlingError(f"--not-there-below takes a probability from 0 to 1, got {args.not_there_below:g}")
    format_of(args.format)
    engine = engine_of(args)
    read = args.captions, args.data, args.compare
    out, page = new_file(args.out, *read), new_file(args.html, *read) if args.html else None
    if out.exists() and not out.is_file():
        raise GroundlingError(f"{out} is no regular file, and the verdicts are read again from it: name another -o")
    before = summarise(_lines(args.compare)) if args.compare else None
    data = _data(args)
    find = _finder(args, data)
    auditor = Auditor.of(load_grounder(args.model, args.device), args.model, args.not_there_below)
    _audit(args, auditor, engine, out, data, find)
    found = summarise(_lines(out))
    if not found.ids:
        reason = next(iter(found.errors), "the file holds no captions")
        cure = "; expected an image of --images and its caption in each row" if "no image called" in reason else ""
        raise GroundlingError(f"{args.captions or args.data}: no caption could be checked: {reason}{cure}")
    if not args.json:
        _print_captions(out, len(found.ids), page)
    _tell(found, before, args)
    if page:
        _page(page, out, found, find, args)
    return int(args.fail_over is not None and found.share("not there") > args.fail_over)


# ---------------------------------------------------------------- the work


def _audit(
    args: argparse.Namespace,
    auditor: Auditor,
    engine: Engine,
    out: Path,
    data: Dataset | None,
    find: Callable[[str], Path] | None,
) -> None:
    """Verdicts on what has none yet go behind the others; those of a new file are in FILE.part until all are there."""
    from groundling.audit import stream
    from groundling.commands.outputs import appending, mend, unfinished
    from groundling.errors import DataError
    from groundling.parallel import ALONE
    from groundling.progress import track

    reading = _reading(args)
    here = _audit_rows_with(args, auditor, find)  # regions that cannot be read are told before anything is written
    by = stream.signature(auditor, reading)
    hashes = {row.number: stream.input_hash(row) for row in _rows(args, data)}
    with unfinished(out, {"by": by, "rows": hashes}) as lines:
        going_on = out.exists() and not args.overwrite
        target = out if going_on else lines.kept
        if going_on:
            stream.check(out)
            mend(out)
        done = stream.written(target, by)
        if done:
            print(f"groundling: {out}: going on after {len(done)} captions", file=sys.stderr)
        if beyond := done.keys() - hashes.keys():
            raise DataError(f"{out} has a row {min(beyond)}, which the captions lack: use --overwrite, or another -o")
        groups = stream.groups(_rows(args, data), done)
        found = map(here, groups) if engine == ALONE else engine.map(partial(_worker, args), groups, _called)
        new = chain.from_iterable(found)
        with appending(target) as add:
            for line in track(new, "captions", total=len(hashes) - len(done), quiet=args.json):
                add(line)
        if not going_on:
            lines.finish()


def _reading(args: argparse.Namespace) -> stream.Reading:
    from groundling.audit import stream

    return stream.Reading(args.format, args.resized, args.max_pixels, args.fix or "")


def _audit_rows_with(args: argparse.Namespace, auditor: Auditor, find: Callable[[str], Path] | None) -> AuditRows:
    from groundling.audit import stream
    from groundling.evaluation.evidence import regions_of
    from groundling.regions.store import Store

    look, reading = (
        regions_of(auditor.grounder, find, Store.open(args.regions) if args.regions else None),
        _reading(args),
    )
    return partial(stream.audit_rows, auditor, look, reading, stream.signature(auditor, reading))


def _worker(args: argparse.Namespace) -> AuditRows:
    """In a worker: what audits groups of captions, with a grounder that is loaded once."""
    from groundling.audit import Auditor
    from groundling.inference import load_grounder

    auditor = Auditor.of(load_grounder(args.model, args.device), args.model, args.not_there_below)
    return _audit_rows_with(args, auditor, _finder(args, _data(args)))


def _called(group: Sequence[Row | BadRow]) -> str:
    return f"row {group[0].number}"


def _rows(args: argparse.Namespace, data: Dataset | None) -> Iterator[Row | BadRow]:
    from groundling.formats.rows import Row, read_rows

    if args.captions:
        yield from read_rows(args.captions)
        return
    captions = ((example, caption) for example in data or () for caption in example.captions)
    for number, (example, caption) in enumerate(captions, start=1):
        yield Row(number, example.id, caption.text)


def _data(args: argparse.Namespace) -> Dataset | None:
    from groundling.data.dataset import load

    return load(args.data, args.split, annotated=False) if args.data else None


def _finder(args: argparse.Namespace, data: Dataset | None) -> Callable[[str], Path] | None:
    """What finds the file of an image: in the folder, else in the data set."""
    from groundling.errors import DataError
    from groundling.formats.folder import ImageFolder, Named
    from groundling.formats.rows import Row

    if args.images:
        folder = ImageFolder(args.images)
        files = {row.image: row.file for row in _rows(args, data) if isinstance(row, Row) and row.file}
        return lambda name: folder.find(name, files.get(name, ""))
    if data is None or not any(example.media for example in data):
        return None
    media = Named((example.id, example.media, example.media) for example in data if example.media)

    def find(name: str) -> Path:
        known = media.find(name)
        if known is None:
            raise DataError(f"{args.data}: no image called {name!r}")
        return Path(known)

    return find


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    from groundling.audit.stream import read_lines

    return read_lines(path)


# ---------------------------------------------------------------- what is told


def _tell(found: Summary, before: Summary | None, args: argparse.Namespace) -> None:
    from dataclasses import asdict

    from groundling.audit.summary import compared
    from groundling.errors import printable

    tests, shared = compared(found, before) if before else ([], 0)
    if args.json:
        more = {"compared": {"captions": shared, "tests": [asdict(test) for test in tests]}} if tests else {}
        print(json.dumps(found.to_dict() | more))
        return
    _print_summary(found)
    if tests:
        print(f"\n{args.compare} -> this one, on {shared} captions of the same images (p: paired randomisation):")
        for test in (one for one in tests if one.baseline or one.system):
            change = f"{100 * test.baseline:6.1f} % -> {100 * test.system:5.1f} %"
            print(f"  {test.name:12}{change}   p = {test.p_randomisation:.4f}")
    for reason, count in found.errors.most_common(5):
        rows = "1 row was not checked" if count == 1 else f"{count} rows were not checked, the first"
        print(printable(f"groundling: {rows}: {reason}"), file=sys.stderr)


def _print_captions(out: Path, count: int, page: Path | None) -> None:
    """A few captions as they are, with the verdicts on nouns that are not grounded; of many, where they are."""
    from groundling.errors import printable

    if count > SHOWN:
        shows = "" if page else "; an --html page shows them with their images"
        print(f"{out}: the verdicts on each caption{shows}", file=sys.stderr)
        return
    for row in _lines(out):
        if "phrases" in row:
            print(printable(f"{row['image']}: {_with_verdicts(row)}"))
    print()


def _with_verdicts(row: dict[str, Any]) -> str:
    """A caption, with the verdict behind each phrase that is not grounded: "a cat beside a surfboard (not there)"."""
    text = str(row["caption"])
    for phrase in sorted(row["phrases"], key=lambda one: -one["span"][1]):
        if phrase["verdict"] != "grounded":
            end = phrase["span"][1]
            text = f"{text[:end]} ({phrase['verdict']}){text[end:]}"
    return text


def _print_summary(found: Summary) -> None:
    from rich.table import Table

    from groundling.audit.verdicts import VERDICTS
    from groundling.commands.score_table import show

    print(f"{len(found.ids)} captions, {found.nouns} nouns\n")
    if not found.nouns:
        print("no noun phrase was found: captions are read as English sentences")
        return
    for one in found.intervals():
        print(f"  {one.name:12}{100 * one.value:6.1f} %   ({100 * one.low:.1f} to {100 * one.high:.1f})")
    table = Table("class", box=None, pad_edge=False)
    for name in ("nouns", *VERDICTS):
        table.add_column(name, justify="right")
    for row in found.classes():
        table.add_row(row["class"], str(row["nouns"]), *(f"{100 * row[name]:.1f} %" for name in VERDICTS))
    print()
    show(table)
    for title, words in (("most often not there", found.by_word), ("cannot tell", found.unknown)):
        if words:
            print(f"\n{title}: " + ", ".join(f"{word} ({n})" for word, n in words.most_common(10)))


def _page(path: Path, out: Path, found: Summary, find: Callable[[str], Path] | None, args: argparse.Namespace) -> None:
    from groundling.audit import page
    from groundling.text.noun_kinds import kind_of

    rows = page.worst(_lines(out), args.limit)
    for row in rows:
        for phrase in row["phrases"]:
            phrase["class"] = kind_of(phrase["lemma"])
    title = Path(args.captions or args.data).stem
    page.write(path, rows, found.to_dict(), find, title=f"{title}: which nouns are there?")
    print(f"{path}: the {len(rows)} worst captions", file=sys.stderr)
