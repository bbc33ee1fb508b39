"""`groundling reproduce`: a whole table of a paper, on one's own data."""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.errors import GroundlingError

if TYPE_CHECKING:
    from groundling.metrics.spread import Spread
    from groundling.tables import Row, Table, Value
    from groundling.types import Score

DESCRIPTION = """\
Train, caption and score every row of a table of a paper, and print it beside the paper's numbers.

The paper's numbers are of other data and another detector: differences between rows may be compared, the rows
themselves may not. What is done is not done again: a table that was stopped goes on, row by row and step by step.
With several seeds every number is the mean ± the standard deviation over them."""

EPILOG = """\
examples:
  groundling reproduce                                                        which tables there are
  groundling reproduce pos-scan-table-2 --data scenes --regions scenes.regions --out tables --small --seeds 0,1,2
  groundling reproduce pos-scan-table-2 --data f30k --regions f30k.regions --out tables --set scst.epochs=20
  groundling reproduce pos-scan-table-2 --data f30k --regions f30k.regions --out tables --commands   only print them"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("table", nargs="?", metavar="TABLE", help="name of the table (default: list them)")
    parser.add_argument("--data", type=Path, metavar="DATA", help="data set with train and val")
    parser.add_argument("--regions", type=Path, metavar="STORE", help="its region store")
    parser.add_argument("--out", type=Path, default=Path("tables"), metavar="DIR", help="folder of the runs")
    parser.add_argument("--rows", default="", metavar="1,2,…", help="only these rows, numbered from 1")
    parser.add_argument("--seeds", default="0", metavar="0,1,…", help="seeds of the runs (default 0)")
    parser.add_argument("--split", default="val", metavar="NAME", help="split to score (default val)")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="only the first N training images")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="of the CPU; small models like 1")
    parser.add_argument("--small", action="store_true", help="sizes and learning rates that suit scenes, minutes a row")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        help="a knob of all recipes that have it, or of one: RECIPE.KNOB=VALUE; may be repeated",
    )
    parser.add_argument("--commands", action="store_true", help="print the commands of the rows and do nothing")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", action="store_true", help="print all scores of all seeds as JSON")


def run(args: argparse.Namespace) -> int:
    from groundling.tables import TABLES, table

    if args.table is None:
        for name in TABLES:
            print(f"{name:28} {table(name).title}")
        return 0
    found = table(args.table)
    rows = _rows(found, args.rows)
    seeds = _numbers(args.seeds, "--seeds")
    if args.data is None or args.regions is None:
        raise GroundlingError("name the data and its regions: --data DATA --regions STORE")
    import torch

    from groundling.reproduce import Bench, reproduce
    from groundling.tables.small import SMALL

    knobs = {**(SMALL if args.small else {}), **_knobs(args.set)}
    bench = Bench(args.data, args.regions, args.out, knobs, args.split, args.limit)
    if args.commands:
        for seed in seeds:
            print("\n".join(bench.command(job, seed) for job in found.order(rows)))
        return 0
    if args.threads:
        torch.set_num_threads(args.threads)
    logging.getLogger("groundling.reproduce").setLevel(logging.INFO)
    done = reproduce(found, rows, bench, seeds)
    if args.json:
        print(json.dumps({"table": found.name, "rows": [_plain(row, done[row.job]) for row in rows]}))
    else:
        _print(found, rows, done, args.markdown)
    return 0


def _rows(found: Table, text: str) -> list[Row]:
    if not text:
        return list(found.rows)
    numbers = _numbers(text, "--rows")
    if odd := [n for n in numbers if not 1 <= n <= len(found.rows)]:
        raise GroundlingError(f"--rows: {found.name} has rows 1 to {len(found.rows)}, not {odd[0]}")
    return [found.rows[n - 1] for n in numbers]


def _numbers(text: str, flag: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise GroundlingError(f"{flag} takes whole numbers with commas between them, got {text!r}") from error


def _knobs(pairs: Sequence[str]) -> dict[str, Value]:
    """`--set`: numbers where they are numbers."""
    found: dict[str, Value] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise GroundlingError(f"--set takes KNOB=VALUE, got {pair!r}")
        found[name.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _plain(row: Row, scores: Sequence[Sequence[Score]]) -> dict[str, object]:
    from dataclasses import asdict

    return {"label": row.label, "paper": dict(row.paper), "seeds": [[asdict(s) for s in seed] for seed in scores]}


def _print(found: Table, rows: Sequence[Row], done: dict[str, list[list[Score]]], markdown: bool) -> None:
    from groundling.metrics.spread import spread

    heads = ["", *(f"{name}{whose}" for name in found.columns for whose in ("", " (paper)"))]
    lines = []
    for row in rows:
        cells, ours = [row.label], {one.name: one for one in spread(done[row.job])}
        for column, score in found.columns.items():
            cells += [_cell(ours.get(score)), f"{row.paper[column]:g}" if column in row.paper else ""]
        lines.append(cells)
    print(f"{found.title}\nOurs × 100 on the left; in brackets the paper's, of {found.source}.\n")
    if markdown:
        print("\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *lines)))
        return
    from rich.table import Table as Grid

    from groundling.commands.score_table import show

    grid = Grid(box=None, pad_edge=False)
    for i, head in enumerate(heads):
        grid.add_column(head, justify="right" if i else "left", style="dim" if i and i % 2 == 0 else None)
    for cells in lines:
        grid.add_row(*cells)
    show(grid)


def _cell(ours: Spread | None) -> str:
    if ours is None or math.isnan(ours.mean):
        return "–"
    plus = "" if math.isnan(ours.deviation) else f" ± {100 * ours.deviation:.1f}"
    return f"{100 * ours.mean:.1f}{plus}"
