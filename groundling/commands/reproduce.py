"""`groundling reproduce`: whole tables of the papers, on one's own data."""

from __future__ import annotations

import argparse
import json
import logging
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import whole_number, whole_numbers
from groundling.errors import GroundlingError

if TYPE_CHECKING:
    from groundling.metrics.spread import Spread
    from groundling.papers.reproduce import Bench, Material
    from groundling.papers.tables import Row, Table, Value
    from groundling.types import Score

PAPER = " (paper)"  # ends the heading of a column
SUMMARIES = "summaries"  # folder below OUT

DESCRIPTION = """\
Train, caption and score every row of a table of a paper, and print it beside the paper's numbers.

The paper's numbers are of other data and another detector: differences between rows may be compared, the rows
themselves may not. SPICE, which most of the papers print too, is not computed here; self-retrieval is, for the tables
of contrastive learning. With several seeds every number is the mean ± the standard deviation over them. TABLE may be a
pattern, and several may be named: 'pos-scan-*' are all tables of that paper.

What is done is not done again: a table that was stopped, by Ctrl-C or by a power cut, goes on when the same command is
given again, row by row and step by step. Tables in one --out share the runs that they have in common. Training always
holds out val to choose its best epoch; --split is what is scored, and another one can be scored later without training
again.

--page writes a page of Markdown from what is stored, and trains nothing: the papers' claims, each with a verdict and a
p-value, then the tables, with the values of every seed and the command of each. What was not run is said to be so."""

EPILOG = """\
examples:
  groundling reproduce pos-scan-table-2 --list                                which rows it has
  groundling reproduce pos-scan-table-2 --data scenes --regions scenes.regions --small --seeds 0,1,2
  groundling reproduce pos-scan-table-2 --data scenes --regions scenes.regions --small --seeds 0,1,2 --split test
  groundling reproduce pos-scan-table-2 --data f30k --regions f30k.regions --rows 5,13 --set scst.epochs=20
  groundling reproduce pos-scan-table-2 --data f30k --regions f30k.regions --commands    only print the commands
  groundling reproduce 'nce-distill-*' 'cyclical-table-[46]' --data scenes --regions scenes.regions --small
  groundling reproduce --page papers.md --out tables

what is written:
  OUT/JOB-SEED/                       what `groundling train` writes
  OUT/JOB-SEED/command.txt            the command that trained it, when that is over
  OUT/JOB-SEED/scores-SPLIT.json      all scores, with their signatures; those of another version are made again
  OUT/JOB-SEED/resampled-SPLIT.npz    the scores on 1,000 bootstrap samples of the images, for the tests
  OUT/summaries/TABLE-DATA-SPLIT.json all that was run of a table, by seed, with p-values: what --page reads

tables:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG + _tables()
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="names or patterns of tables (default: list them)")
    parser.add_argument("--list", action="store_true", help="list the rows of the table, or the tables, and do nothing")
    parser.add_argument("--data", type=Path, metavar="DATA", help="data set with train and val")
    parser.add_argument("--regions", type=Path, metavar="STORE", help="its region store")
    parser.add_argument(
        "--out", type=Path, default=Path("tables"), metavar="OUT", help="folder of the runs (default tables)"
    )
    parser.add_argument("--rows", type=whole_numbers(1), metavar="1,2,…", help="only these rows, numbered from 1")
    parser.add_argument(
        "--seeds", type=whole_numbers(0), default=[0], metavar="0,1,…", help="seeds of the runs (default 0)"
    )
    parser.add_argument("--split", default="val", metavar="NAME", help="split to score (default val)")
    parser.add_argument(
        "--limit",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="only the first N training images (default 0: all)",
    )
    parser.add_argument(
        "--device", default="", metavar="NAME", help="cpu, cuda, mps (default: cuda where there is one)"
    )
    parser.add_argument(
        "--threads", type=whole_number(0), default=0, metavar="N", help="of the CPU (default: all; small models like 1)"
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="sizes and learning rates that suit scenes: one to three minutes for each row",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a config field of all recipes that have it, or of one: RECIPE.FIELD=VALUE, which counts more; may be "
        "repeated. What makes a row what it is stays",
    )
    parser.add_argument("--commands", action="store_true", help="print the commands of the rows and do nothing")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--json", action="store_true", help="print all scores of all seeds as JSON, a line for each table"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the page of what is stored in OUT, and do nothing else"
    )


def run(args: argparse.Namespace) -> int:
    from groundling.papers.tables import matching, table

    if args.page:
        return _page(args)
    if not args.tables:
        print(_tables())
        return 0
    chosen = [table(name) for name in matching(args.tables)]
    if args.list:
        print("\n\n".join(map(_contents, chosen)))
        return 0
    if args.rows and len(chosen) > 1:
        raise GroundlingError(f"--rows: {len(chosen)} tables were named, which have rows of their own; name one")
    told = [(found, _rows(found, args.rows), _bench(found, args)) for found in chosen]
    if args.commands:
        for found, rows, bench in told:
            for seed in args.seeds:
                print("\n".join(bench.command(job, seed) for job in found.order(rows)))
        return 0
    from groundling.papers.reproduce import Material

    material = Material.of(told[0][2])
    return next((code for found, rows, bench in told if (code := _reproduce(found, rows, bench, material, args))), 0)


def _bench(found: Table, args: argparse.Namespace) -> Bench:
    own = _config_of(found, args.set)
    if args.data is None or args.regions is None:
        raise GroundlingError("name the data and its regions: --data DATA --regions STORE")
    from groundling.inference.loading import device_of
    from groundling.papers import reproduce
    from groundling.papers.tables import small

    if args.device:
        device_of(args.device)
    config = {**(small.SMALL if args.small else {}), **own}
    gallery = small.GALLERY if args.small else reproduce.GALLERY
    return reproduce.Bench(args.data, args.regions, args.out, config, args.split, args.limit, args.device, gallery)


def _page(args: argparse.Namespace) -> int:
    from groundling.commands.outputs import new_file
    from groundling.files import saved
    from groundling.papers.page import page
    from groundling.papers.summary import read

    folder = args.out / SUMMARIES if (args.out / SUMMARIES).is_dir() else args.out
    text = page(read(folder))
    with saved(new_file(args.page)) as file:
        file.write(text.encode())
    print(args.page)
    return 0


def _command(found: Table, args: argparse.Namespace) -> str:
    """What one would type to run the whole table."""
    words = ["groundling", "reproduce", found.name, "--data", args.data, "--regions", args.regions, "--out", args.out]
    words += ["--small"] if args.small else []
    words += [word for pair in args.set for word in ("--set", pair)]
    words += ["--limit", args.limit] if args.limit else []
    words += ["--seeds", ",".join(map(str, args.seeds)), "--split", args.split]
    return shlex.join(map(str, words))


def _reproduce(found: Table, rows: Sequence[Row], bench: Bench, material: Material, args: argparse.Namespace) -> int:
    import torch

    from groundling.metrics.evaluation import finite
    from groundling.papers.reproduce import reproduce
    from groundling.papers.summary import summary, write
    from groundling.training.interrupt import Stopped

    if args.threads:
        torch.set_num_threads(args.threads)
    logging.getLogger("groundling.papers.reproduce").setLevel(logging.INFO)
    try:
        runs = reproduce(found, rows, bench, args.seeds, material)
    except Stopped as stopped:
        print(f"groundling: {stopped}", file=sys.stderr)
        return 128 + stopped.signum
    (args.out / SUMMARIES).mkdir(exist_ok=True)
    write(args.out / SUMMARIES, summary(found, bench, _command(found, args), material.described(bench)))
    done = {job: [run.scores for run in each] for job, each in runs.items()}
    if args.json:
        told = {"table": found.name, "split": args.split, "seeds": args.seeds}
        whole = told | {"rows": [_plain(row, done[row.job]) for row in rows]}
        print(json.dumps(finite(whole), allow_nan=False))
    else:
        where = f"{args.data.resolve().name}, {args.split}; seeds {', '.join(map(str, args.seeds))}"
        _print(found, rows, done, where, args.markdown)
    return 0


# ---------------------------------------------------------------- what is asked for


def _tables() -> str:
    from groundling.papers.tables import TABLES, table

    return "\n".join(f"  {name:26} {table(name).title}" for name in TABLES)


def _contents(found: Table) -> str:
    """The rows of a table, numbered, each with the training behind it."""
    jobs = {job.name: job for job in found.jobs}
    lines = [found.title, f"Numbers of the paper: {found.source}." if found.source else "Not of a paper."]
    wide = max(len(row.label) for row in found.rows)
    for number, row in enumerate(found.rows, start=1):
        job = jobs[row.job]
        words = [job.recipe, *(f"--{name.replace('_', '-')} {value}" for name, value in job.config.items())]
        words += [f"--start @{job.start}"] if job.start else []
        lines.append(f"{number:4}  {row.label:{wide}}  {' '.join(words)}")
    needed = {name for job in found.order(found.rows) for name in job.needs}
    lines += [f"      @{name} is {jobs[name].recipe}" for name in sorted(needed)]
    return "\n".join([*lines, *([found.note] if found.note else [])])


def _rows(found: Table, numbers: Sequence[int] | None) -> list[Row]:
    if numbers is None:
        return list(found.rows)
    if odd := [n for n in numbers if n > len(found.rows)]:
        raise GroundlingError(f"--rows: {found.name} has rows 1 to {len(found.rows)}, not {odd[0]}")
    return [found.rows[n - 1] for n in numbers]


def _config_of(found: Table, pairs: Sequence[str]) -> dict[str, Value]:
    """`--set`, each value of the type of its field. GroundlingError where no recipe of the table has it."""
    from groundling.recipes import _config

    recipes = {job.recipe: {field.name: field for field in _config.read(job.recipe)[1]} for job in found.jobs}
    chosen: dict[str, Value] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        recipe, dot, name = key.replace("-", "_").rpartition(".")
        if not equals:
            raise GroundlingError(f"--set takes FIELD=VALUE, got {pair!r}")
        if dot and recipe not in recipes:
            raise GroundlingError(f"--set {pair}: {found.name} trains no {recipe}; it trains {', '.join(recipes)}")
        known = [of[name] for each, of in recipes.items() if name in of and recipe in ("", each)]
        if not known and recipe:
            raise GroundlingError(
                f"--set {pair}: {recipe} has no config field {name}; see `groundling train {recipe} --help`"
            )
        if not known:
            raise GroundlingError(
                f"--set {pair}: no recipe of {found.name} has a config field {name}: {', '.join(recipes)}"
            )
        try:
            chosen[f"{recipe}{dot}{name}"] = known[0].parse(text)
        except ValueError as error:
            raise GroundlingError(f"--set {pair}: {name} is of type {known[0].type.__name__}") from error
    return chosen


# ---------------------------------------------------------------- what is told


def _plain(row: Row, scores: Sequence[Sequence[Score]]) -> dict[str, object]:
    from dataclasses import asdict

    return {"label": row.label, "paper": dict(row.paper), "seeds": [[asdict(s) for s in seed] for seed in scores]}


def _print(found: Table, rows: Sequence[Row], done: dict[str, list[list[Score]]], where: str, markdown: bool) -> None:
    heads, lines = _grid(found, rows, done)
    print(f"{found.title}\nOurs × 100, on {where}.")
    if found.source:
        print(f"(paper): on {found.source}. Differences between rows may be compared, the rows themselves may not.")
    print()
    if markdown:
        print("\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *lines)))
    else:
        from rich.table import Table as Grid

        from groundling.commands.score_table import show

        grid = Grid(box=None, pad_edge=False)
        for i, head in enumerate(heads):
            grid.add_column(head, justify="right" if i else "left", style="dim" if head.endswith(PAPER) else None)
        for cells in lines:
            grid.add_row(*cells)
        show(grid)
    if found.note:
        print(f"\n{found.note}")


def _grid(found: Table, rows: Sequence[Row], done: dict[str, list[list[Score]]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: ours, and beside it the paper's where it has any number in these rows."""
    from groundling.metrics.spread import spread

    printed = {name for row in rows for name in row.paper}
    heads = [""]
    for name in found.columns:
        heads += [name, name + PAPER] if name in printed else [name]
    lines = []
    for row in rows:
        cells, ours = [row.label], {one.name: one for one in spread(done[row.job])}
        for name, score in found.columns.items():
            cells.append(_cell(ours.get(score)))
            if name in printed:
                cells.append(f"{row.paper[name]:g}" if name in row.paper else "")
        lines.append(cells)
    return heads, lines


def _cell(ours: Spread | None) -> str:
    if ours is None or math.isnan(ours.mean):
        return "–"
    plus = "" if math.isnan(ours.deviation) else f" ± {100 * ours.deviation:.2f}"
    return f"{100 * ours.mean:.2f}{plus}"
