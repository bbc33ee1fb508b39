"""`groundling reproduce`: tables of the papers, on one's own data."""

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

The papers used other data and another detector: compare the differences between rows, not the rows themselves. SPICE is
not computed. With several seeds every number is the mean ± the standard deviation over them. TABLE may be a pattern,
and there may be several: 'pos-scan-*' are all tables of that paper.

If the command is stopped, by Ctrl-C or by a power cut, the same command continues it, row by row and step by step.
Tables in one --out share the runs that they have in common. Training always chooses its best epoch on val; --split
names the split that is scored, and another one can be scored later without training again.

--page trains nothing. It writes a Markdown page from the stored scores: the papers' claims, each with a verdict and a
p-value, then the tables, with the values of every seed and the command of each. It names what was not run."""

EPILOG = """\
examples:
  groundling reproduce pos-scan-table-2 --list                                list its rows
  groundling reproduce pos-scan-table-2 --data scenes --regions scenes.regions --small --seeds 0,1,2
  groundling reproduce pos-scan-table-2 --data scenes --regions scenes.regions --small --seeds 0,1,2 --split test
  groundling reproduce pos-scan-table-2 --data f30k --regions f30k.regions --rows 5,13 --set scst.epochs=20
  groundling reproduce pos-scan-table-2 --data f30k --regions f30k.regions --commands    only print the commands
  groundling reproduce 'nce-distill-*' 'cyclical-table-[46]' --data scenes --regions scenes.regions --small
  groundling reproduce --page papers.md --out tables

what is written:
  OUT/JOB-SEED/                       what `groundling train` writes
  OUT/JOB-SEED/command.txt            the command that trained it, written at the end
  OUT/JOB-SEED/scores-SPLIT.json      all scores, with their signatures; those of another version are made again
  OUT/JOB-SEED/resampled-SPLIT.npz    the scores on 20,000 bootstrap samples of the images, for the tests
  OUT/summaries/TABLE-DATA-SPLIT.json the scores of a table, by seed, with p-values: --page reads it

tables:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG + _tables()
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="names or patterns of tables (default: list them)")
    parser.add_argument(
        "--list", action="store_true", help="list the rows of the table, or all tables, and train nothing"
    )
    parser.add_argument("--data", type=Path, metavar="DATA", help="data set with splits train and val")
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
        "--threads",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="threads of the CPU (default: all; small models are faster with 1)",
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="use sizes and learning rates for scenes: one to three minutes for each row",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="set a field of all recipes that have it, or RECIPE.FIELD=VALUE of one, which takes precedence; may be "
        "repeated. Fields that distinguish the rows stay",
    )
    parser.add_argument("--commands", action="store_true", help="print the commands of the rows and run nothing")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--json", action="store_true", help="print all scores of all seeds as JSON, a line for each table"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the page of the scores that OUT stores, and train nothing"
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
    plans = [(spec, _rows(spec, args.rows), _bench(spec, args)) for spec in chosen]
    if args.commands:
        for spec, rows, bench in plans:
            for seed in args.seeds:
                print("\n".join(bench.command(job, seed) for job in spec.order(rows)))
        return 0
    from groundling.papers.reproduce import Material

    material = Material.of(plans[0][2])
    return next((code for spec, rows, bench in plans if (code := _reproduce(spec, rows, bench, material, args))), 0)


def _bench(spec: Table, args: argparse.Namespace) -> Bench:
    own = _config_of(spec, args.set)
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
    found = read(folder)
    if not found:
        told = f"{args.out} has no results of tables ({SUMMARIES}/*.json)"
        raise GroundlingError(f"{told}: name the folder of results that `groundling reproduce TABLE` wrote with --out")
    text = page(found)
    with saved(new_file(args.page)) as file:
        file.write(text.encode())
    print(args.page)
    return 0


def _command(spec: Table, args: argparse.Namespace) -> str:
    """What one would type to run the whole table."""
    words = ["groundling", "reproduce", spec.name, "--data", args.data, "--regions", args.regions, "--out", args.out]
    words += ["--small"] if args.small else []
    words += [word for pair in args.set for word in ("--set", pair)]
    words += ["--limit", args.limit] if args.limit else []
    words += ["--seeds", ",".join(map(str, args.seeds)), "--split", args.split]
    return shlex.join(map(str, words))


def _reproduce(spec: Table, rows: Sequence[Row], bench: Bench, material: Material, args: argparse.Namespace) -> int:
    import torch

    from groundling.metrics.evaluation import finite
    from groundling.papers.reproduce import reproduce
    from groundling.papers.summary import summary, write
    from groundling.training.interrupt import Stopped

    if args.threads:
        torch.set_num_threads(args.threads)
    logging.getLogger("groundling.papers.reproduce").setLevel(logging.INFO)
    try:
        runs = reproduce(spec, rows, bench, args.seeds, material)
    except Stopped as stopped:
        print(f"groundling: {stopped}", file=sys.stderr)
        return 128 + stopped.signum
    (args.out / SUMMARIES).mkdir(exist_ok=True)
    write(args.out / SUMMARIES, summary(spec, bench, _command(spec, args), material.described(bench)))
    done = {job: [run.scores for run in each] for job, each in runs.items()}
    if args.json:
        about = {"table": spec.name, "split": args.split, "seeds": args.seeds}
        result = about | {"rows": [_plain(row, done[row.job]) for row in rows]}
        print(json.dumps(finite(result), allow_nan=False))
    else:
        where = f"{args.data.resolve().name}, {args.split}; seeds {', '.join(map(str, args.seeds))}"
        _print(spec, rows, done, where, args.markdown)
    return 0


# ---------------------------------------------------------------- what is asked for


def _tables() -> str:
    from groundling.papers.tables import ELSEWHERE, TABLES, table

    own = [f"  {name:26} {table(name).title}" for name in TABLES]
    return "\n".join(
        [
            *own,
            "",
            "tables of the papers that have no run of their own:",
            *(f"  {name:26} {where}" for name, where in ELSEWHERE.items()),
        ]
    )


def _contents(spec: Table) -> str:
    """The rows of a table, numbered, each with the training behind it."""
    jobs = {job.name: job for job in spec.jobs}
    lines = [spec.title, f"Numbers of the paper: {spec.source}." if spec.source else "Not of a paper."]
    wide = max(len(row.label) for row in spec.rows)
    for number, row in enumerate(spec.rows, start=1):
        job = jobs[row.job]
        words = [job.recipe, *(f"--{name.replace('_', '-')} {value}" for name, value in job.config.items())]
        words += [f"--start @{job.start}"] if job.start else []
        lines.append(f"{number:4}  {row.label:{wide}}  {' '.join(words)}")
    needed = {name for job in spec.order(spec.rows) for name in job.needs}
    lines += [f"      @{name} is {jobs[name].recipe}" for name in sorted(needed)]
    return "\n".join([*lines, *([spec.note] if spec.note else [])])


def _rows(spec: Table, numbers: Sequence[int] | None) -> list[Row]:
    if numbers is None:
        return list(spec.rows)
    if odd := [n for n in numbers if n > len(spec.rows)]:
        raise GroundlingError(f"--rows: {spec.name} has rows 1 to {len(spec.rows)}, not {odd[0]}")
    return [spec.rows[n - 1] for n in numbers]


def _config_of(spec: Table, pairs: Sequence[str]) -> dict[str, Value]:
    """`--set`, each value of the type of its field. GroundlingError where no recipe of the table has it."""
    from groundling.recipes import _config

    recipes = {job.recipe: {field.name: field for field in _config.read(job.recipe)[1]} for job in spec.jobs}
    chosen: dict[str, Value] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        recipe, dot, name = key.replace("-", "_").rpartition(".")
        if not equals:
            raise GroundlingError(f"--set takes FIELD=VALUE, got {pair!r}")
        if dot and recipe not in recipes:
            raise GroundlingError(f"--set {pair}: {spec.name} trains no {recipe}; it trains {', '.join(recipes)}")
        known = [of[name] for each, of in recipes.items() if name in of and recipe in ("", each)]
        if not known and recipe:
            raise GroundlingError(
                f"--set {pair}: {recipe} has no config field {name}; see `groundling train {recipe} --help`"
            )
        if not known:
            raise GroundlingError(
                f"--set {pair}: no recipe of {spec.name} has a config field {name}: {', '.join(recipes)}"
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


def _print(spec: Table, rows: Sequence[Row], done: dict[str, list[list[Score]]], where: str, markdown: bool) -> None:
    heads, lines = _grid(spec, rows, done)
    print(f"{spec.title}\nOurs × 100, on {where}.")
    if spec.source:
        print(f"(paper): on {spec.source}. Differences between rows may be compared, the rows themselves may not.")
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
    if spec.note:
        print(f"\n{spec.note}")


def _grid(spec: Table, rows: Sequence[Row], done: dict[str, list[list[Score]]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: ours, and beside it the paper's where it has any number in these rows."""
    from groundling.metrics.spread import spread

    printed = {name for row in rows for name in row.paper}
    heads = [""]
    for name in spec.columns:
        heads += [name, name + PAPER] if name in printed else [name]
    lines = []
    for row in rows:
        cells, ours = [row.label], {one.name: one for one in spread(done[row.job])}
        for name, score in spec.columns.items():
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
