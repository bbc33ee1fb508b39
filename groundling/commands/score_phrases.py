"""`groundling score phrases`: phrase localisation."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from groundling.commands.score_table import (
    add_common,
    add_iou,
    compared,
    ends,
    print_scores,
    resampled,
    show,
    signatures,
)

DESCRIPTION = """\
Phrase localisation: Recall@1 (accuracy), Recall@5, Recall@10, pointing game and, where the proposals are known, the
upper bound that they allow; of all phrases, by phrase type and by class. A hit is IoU >= 0.5 on whole pixels, both ends
of a box included (sides are x2 - x1 + 1), or with --continuous on boxes whose sides are x2 - x1.

Input: FILE holds JSON lines, or {"phrases": [...]}, one object per phrase:
  "boxes"            [[x1, y1, x2, y2], ...], best first; or all proposals, together with
  "token_attention"  tokens x slots, from which they are ranked; slots beyond the boxes are padding
  "gt_boxes"         the true boxes; null where nothing was drawn, and the phrase is not scored
  "id", "proposals", "kinds" (phrase types) and "label" (class) may be there too."""

EPILOG = """\
examples:
  groundling score phrases phrases.jsonl
  groundling score phrases phrases.jsonl --truth union --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("file", type=Path, metavar="FILE", help="phrases, predicted and true")
    parser.add_argument(
        "--truth",
        choices=("any", "union"),
        default="any",
        help="which box is right if a phrase has several: any, or the box around them all (union)",
    )
    parser.add_argument("--continuous", action="store_true", help="sides of boxes are x2 - x1, not x2 - x1 + 1")
    add_iou(parser, "overlap from which a box is right (default 0.5)")
    add_common(parser)


def run(args: argparse.Namespace) -> None:
    from groundling.metrics.evaluation import finite
    from groundling.metrics.phrases import Localisation, localise, read_queries

    def scored(file: Path) -> Localisation:
        return localise(read_queries(file), args.truth, args.iou, continuous=args.continuous)

    result = scored(args.file)
    statistics = list(result.statistics().values())
    intervals = resampled(statistics, args.bootstrap)
    baseline = list(scored(args.baseline).statistics().values()) if args.baseline else None
    tests = compared(statistics, baseline, args.bootstrap)
    if args.json:
        row = {"scores": result.to_dict(), "by_kind": result.by_kind(), "by_class": result.by_label()}
        print(json.dumps(finite(row | signatures(statistics) | ends(intervals, tests)), allow_nan=False))
        return
    print_scores([one.score() for one in statistics], intervals, tests)
    for heading, groups in (("phrase type", result.by_kind()), ("class", result.by_label())):
        if groups:
            _print_groups(heading, groups)


def _print_groups(heading: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """The scores of each group, with how many phrases it has."""
    from rich.table import Table

    names = list(next(iter(groups.values())))
    table = Table(heading, box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right")
    for group, scores in groups.items():
        table.add_row(group, *(f"{scores[n]:.0f}" if n == "phrases" else f"{scores[n]:.4f}" for n in names))
    print()
    show(table)
