"""What the scoring commands share: options, and the table that scores are printed as."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groundling.errors import DataError

if TYPE_CHECKING:
    from groundling.metrics.significance import Interval
    from groundling.metrics.statistics import Statistics
    from groundling.types import Score


def add_iou(parser: argparse.ArgumentParser, what: str = "overlap above which a box is right (default 0.5)") -> None:
    parser.add_argument("--iou", type=_overlap, default=0.5, metavar="X", help=what)


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bootstrap", type=_resamples, default=0, metavar="N", help="95 %% intervals from N resamples")


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


def ends(intervals: Sequence[Interval]) -> dict[str, Any]:
    """What `--json` has more with `--bootstrap`: {"intervals": {name: [low, high]}}, or nothing."""
    return {"intervals": {one.name: [one.low, one.high] for one in intervals}} if intervals else {}


def print_scores(scores: Sequence[Score], intervals: Sequence[Interval] = ()) -> None:
    """One row for each score; `intervals` are those of the first scores, in the same order."""
    from rich.table import Table

    table = Table("score", box=None, pad_edge=False)
    table.add_column("value", justify="right")
    if intervals:
        table.add_column("95 % interval", justify="right")
    table.add_column("n", justify="right")
    table.add_column("signature", style="dim", overflow="fold")
    ranges = [f"{one.low:.4f} to {one.high:.4f}" for one in intervals]
    ranges += [""] * (len(scores) - len(ranges)) if intervals else []
    for i, score in enumerate(scores):
        table.add_row(score.name, f"{score.value:.4f}", *ranges[i : i + 1], str(score.n), score.signature)
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
