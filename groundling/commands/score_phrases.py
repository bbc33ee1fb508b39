"""`groundling score phrases`: phrase localisation."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

DESCRIPTION = """\
Phrase localisation: Recall@1 (accuracy), Recall@5, Recall@10, pointing game and, where the proposals are known, the
upper bound that they allow; of all phrases, by phrase type and by class. A hit is IoU >= 0.5 on whole pixels.

FILE holds JSON lines, or {"phrases": [...]}, one object per phrase:
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
        help="of several true boxes: any, or the box around them all",
    )
    parser.add_argument("--iou", type=float, default=0.5, metavar="X", help="overlap from which a box is right (0.5)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from groundling.metrics.evaluation import finite
    from groundling.metrics.phrases import localise, read_queries

    found = localise(read_queries(args.file), args.truth, args.iou)
    if args.json:
        whole = {"scores": found.to_dict(), "by_kind": found.by_kind(), "by_class": found.by_label()}
        print(json.dumps(finite(whole), allow_nan=False))
        return
    for score in (one.score() for one in found.statistics().values()):
        print(f"{score.name:12}{score.value:8.4f}   {score.signature}|n:{score.n}")
    for group, scores in (found.by_kind() | found.by_label()).items():
        print(f"  {group:20}{scores['recall@1']:8.4f}  of {scores['phrases']} phrases")
