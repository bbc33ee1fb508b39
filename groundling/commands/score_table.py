"""What the scoring commands share: options, and the table that scores are printed as."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.errors import DataError

if TYPE_CHECKING:
    from groundling.metrics.significance import Comparison, Interval
    from groundling.metrics.statistics import Statistics
    from groundling.types import Score


def add_iou(parser: argparse.ArgumentParser, what: str = "overlap above which a box is right (default 0.5)") -> None:
    parser.add_argument("--iou", type=_overlap, default=0.5, metavar="X", help=what)


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bootstrap", type=_resamples, default=0, metavar="N", help="95 %% intervals from N resamples")


def add_common(parser: argparse.ArgumentParser, what: str = "file", json: str = "print JSON") -> None:
    """The last options of commands that score one system; `what` is the system: a file, a run."""
    add_bootstrap(parser)
    parser.add_argument(
        "--baseline", type=Path, metavar=what.upper(), help=f"{what} of another system, to test the difference against"
    )
    parser.add_argument("--json", action="store_true", help=json)


def metric_names(text: str) -> list[str]:
    """The names of `--metrics`, parted by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise DataError("--metrics: name at least one metric, such as bleu,rouge,cider-d")
    return names


def resampled(statistics: Sequence[Statistics], samples: int) -> list[Interval]:
    """The intervals of `--bootstrap`; none where it was not asked for."""
    from groundling.metrics.significance import intervals

    return intervals(statistics, samples) if samples else []


def compared(statistics: Sequence[Statistics], baseline: Sequence[Statistics] | None, samples: int) -> list[Comparison]:
    """The paired tests of `--baseline`; none without one."""
    from groundling.metrics.significance import compare

    return compare(baseline, statistics, samples or 1000) if baseline is not None else []


def ends(intervals: Sequence[Interval], tests: Sequence[Comparison] = ()) -> dict[str, Any]:
    """What `--bootstrap` adds to the JSON: {"intervals": {name: [low, high]}}; with `--baseline`: {"tests"}."""
    more: dict[str, Any] = {"intervals": {one.name: [one.low, one.high] for one in intervals}} if intervals else {}
    return more | ({"tests": [asdict(test) for test in tests]} if tests else {})


def signatures(statistics: Sequence[Statistics]) -> dict[str, Any]:
    """{"signatures": {name: what was done}}, for JSON that has its scores by name."""
    return {"signatures": {one.name: one.score().signature for one in statistics}}


def print_scores(scores: Sequence[Score], intervals: Sequence[Interval] = (), tests: Sequence[Comparison] = ()) -> None:
    """One row for each score; `intervals` and `tests` are those of the first scores, in the same order."""
    from rich.table import Table

    columns: dict[str, list[str]] = {"value": [f"{score.value:.4f}" for score in scores]}
    if intervals:
        columns["95 % interval"] = [f"{one.low:.4f} to {one.high:.4f}" for one in intervals]
    if tests:
        columns["baseline"] = [f"{test.baseline:.4f}" for test in tests]
        columns["p"] = [f"{test.p_randomisation:.4f}" for test in tests]
    columns["n"] = [str(score.n) for score in scores]
    table = Table("score", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("signature", style="dim", overflow="fold")
    rows = zip_longest(*columns.values(), fillvalue="")
    for score, row in zip(scores, rows, strict=True):
        table.add_row(score.name, *row, score.signature)
    show(table)


def show(table: Any) -> None:
    """Print a table; a pipe gets all of its width, a terminal its own."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 250, highlight=False, markup=False).print(table)


def _overlap(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to below 1")
    return value


def _resamples(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"takes a number of resamples, 1000 for instance, got {text}")
    return value


_overlap.__name__, _resamples.__name__ = "overlap", "number"  # as argparse calls them where they are no numbers
