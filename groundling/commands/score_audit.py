"""`groundling score audit`: do nouns that no reference mentions have less evidence?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

DESCRIPTION = """\
Compare an audit with the references of a data set. A noun of an audited caption counts as true if a reference of its
image has it, a narrower or a broader kind of it; otherwise it counts as invented.

  auc                 a true noun has more evidence than an invented one (area under the ROC curve; 0.5 is chance)
  average_precision   of captions with an invented noun, found by the lowest evidence of their nouns; base_rate: chance

References do not mention all that an image shows, so these numbers are lower than with nouns that people marked.
Several audits are scored one by one, and together."""

EPILOG = """\
examples:
  groundling caption coco --split val --regions coco.regions --sample --out weak.jsonl
  groundling audit weak.jsonl --data coco --split val --regions coco.regions -o weak.audit.jsonl
  groundling score audit weak.audit.jsonl strong.audit.jsonl --data coco --split val"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "audits", nargs="+", type=Path, metavar="AUDIT", help="JSON lines that `groundling audit` wrote"
    )
    parser.add_argument("--data", required=True, metavar="DATA", help="the data set of the images")
    parser.add_argument("--split", metavar="NAME", help="only this split of it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from itertools import chain

    from groundling.audit.references import hold
    from groundling.audit.stream import read_lines
    from groundling.data.dataset import load
    from groundling.errors import DataError

    lines = {str(path): list(read_lines(path)) for path in args.audits}
    examples = load(args.data, args.split).examples
    results = {name: hold(rows, examples).numbers() for name, rows in lines.items()}
    if not all(row["captions"] for row in results.values()):
        raise DataError(f"an audit has no caption of an image of {args.data}: name the data set of its images")
    if len(lines) > 1:
        results["together"] = hold(chain(*lines.values()), examples).numbers()
    if args.json:
        print(json.dumps({name: {k: None if v != v else v for k, v in row.items()} for name, row in results.items()}))
        return
    for name, row in results.items():
        print(name)
        print("".join(f"  {key:18}{value:.4g}\n" for key, value in row.items()))
