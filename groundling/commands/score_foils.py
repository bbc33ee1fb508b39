"""`groundling score foils`: does a grounder see which noun of a caption is not in the photo?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from groundling.commands.score_table import add_bootstrap, ends, print_scores, resampled, show

if TYPE_CHECKING:
    from groundling.audit.foils import FoilScores

DESCRIPTION = """\
Test a grounder on foils: captions in which one noun was replaced by another of the same Entities type, which none of
the photo's captions mentions. Does the grounder notice which noun was replaced?

  pair_accuracy   the true phrase has more evidence than its foil
  auc             a true phrase has more evidence than a foil (area under the ROC curve)
  lowest          the foil has the lowest evidence among the phrases of its caption; lowest_by_chance beside it
  ece             expected calibration error of the evidence, on true phrases and foils, one in two

It also prints the verdicts of `groundling audit` on both, by the frequency of the noun in the grounder's training data.
DATA needs boxes of phrases with types (Flickr30k Entities)."""

EPILOG = """\
examples:
  groundling score foils flickr8k --regions flickr8k.regions --split val
  groundling score foils flickr8k --regions flickr8k.regions --model runs/grounder --images 200 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from groundling.commands import whole_number

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("data", metavar="DATA", help="a data set with boxes of phrases and their types")
    parser.add_argument("--regions", required=True, metavar="STORE", help="its region store")
    parser.add_argument("--split", default="val", help="split to test on (default val)")
    parser.add_argument(
        "--model", default="", metavar="RUN", help="a grounder that you trained (default: the package's)"
    )
    parser.add_argument("--images", type=whole_number(1), metavar="N", help="only the first N images (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the foils (default 0)")
    add_bootstrap(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from groundling.audit import Auditor, foils
    from groundling.data.dataset import load
    from groundling.errors import DataError
    from groundling.inference import load_grounder
    from groundling.regions.fingerprints import require
    from groundling.regions.store import Store

    auditor = Auditor.of(load_grounder(args.model), args.model)
    store = Store.open(args.regions)
    require(store.fingerprint, auditor.grounder.model.fingerprint)
    examples = load(args.data, args.split).examples[: args.images]
    store.require(example.id for example in examples)
    made = foils.make_foils(examples, args.seed)
    if not made:
        raise DataError(f"no foil can be made of the split {args.split!r} of {args.data}: it has no phrases with types")
    result = foils.evaluate(auditor, made, store, quiet=args.json)
    _print(result, foils.by_frequency(auditor, result), args)


def _print(result: FoilScores, table: list[dict[str, Any]], args: argparse.Namespace) -> None:
    statistics, numbers = result.statistics(), result.numbers()
    intervals = resampled(statistics, args.bootstrap)
    if args.json:
        scores = {one.name: one.score().value for one in statistics} | numbers
        print(json.dumps({"foils": len(result.foils), "scores": scores, "verdicts": table, **ends(intervals)}))
        return
    print_scores([one.score() for one in statistics], intervals)
    print("".join(f"{name:18}{value:.4f}\n" for name, value in numbers.items()))
    _print_table(table)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("frequency rank of the noun", box=None, pad_edge=False)
    for side in ("true", "foil"):
        for name in (f"{side}: n", "grounded", "not there", "cannot tell"):
            table.add_column(name, justify="right")
    for row in rows:
        cells = []
        for side in ("true", "foil"):
            one = row[side]
            shares = (one["grounded"], one["not there"], one["cannot tell"])
            cells += [str(one["n"]), *(f"{100 * share:.0f} %" if one["n"] else "" for share in shares)]
        table.add_row(row["rank"], *cells)
    show(table)
