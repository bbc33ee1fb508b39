"""`groundling score labels`: labels against boxes that people drew."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundling.labels.engine import Labelled
    from groundling.types import Example

DESCRIPTION = """\
Compare labels with boxes that people drew: precision and recall by confidence at IoU 0.5, calibration, and how well
phrases that were merged agree with the entities of the annotators.

LABELS is a folder that `groundling label --out LABELS` wrote for a data set with boxes of phrases. Labels of low
confidence that were left out are scored too, so that the curve shows what another threshold would give. A calibration
of confidence is fitted on one half of the images, which a hash of their ids chooses, and tested on the other half;
--calibrate keeps it, with the confidence from which labels are exported: the least that makes 77 of 100 boxes right
where it was fitted. Beside a model's manifest the file is sealed. So new weights need the first and the last command
below, and about a minute."""

EPILOG = """\
examples:
  groundling label flickr30k --split val --regions flickr30k.regions --out labels
  groundling score labels labels --data flickr30k --split val
  groundling score labels adapted --data flickr30k --split val --against labels
  groundling score labels labels --data flickr30k --split val --calibrate runs/grounder/labels.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("labels", metavar="LABELS", help="folder that `groundling label` wrote")
    parser.add_argument("--data", required=True, metavar="DATA", help="the data set, with boxes of phrases")
    parser.add_argument("--split", help="split that was labelled")
    parser.add_argument(
        "--calibrate", metavar="FILE", help="keep the fitted calibration here (labels.json beside a grounder is used)"
    )
    parser.add_argument("--against", metavar="OTHER", help="other labels of the same images, to compare with")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_file
    from groundling.data.dataset import load
    from groundling.inference.calibration import keep_calibration
    from groundling.labels import engine
    from groundling.labels.truth import report

    kept = new_file(args.calibrate, args.data) if args.calibrate else None
    images = engine.Labelled(args.labels)
    examples = load(args.data, args.split, annotated=False).by_id
    result, fitted = report(images, examples, engine.digest(args.labels))
    if args.against:
        result["against"] = _compared(images, engine.Labelled(args.against), examples)
    if kept:
        keep_calibration(kept, json.dumps(fitted.to_json(), indent=1).encode())
    if args.json:
        print(json.dumps(result))
        return
    _print(result)
    if kept:
        print(f"\n{kept}: fitted on {fitted.boxes} boxes")


def _compared(images: Labelled, others: Labelled, examples: Mapping[str, Example]) -> dict[str, Any]:
    """The difference to other labels in the share of entities that have a right box."""
    from dataclasses import asdict

    from groundling.labels.truth import entities_found
    from groundling.metrics.significance import compare

    return asdict(compare([entities_found(others, examples)], [entities_found(images, examples)])[0])


def _print(result: dict[str, Any]) -> None:
    print(_counted(result))
    chains = result["chains"]
    print(
        f"chains, over {chains['mentions']} mentions: pairs precision {chains['precision']:.4f}, "
        f"recall {chains['recall']:.4f}, F1 {chains['f1']:.4f}; B-cubed F1 {chains['b3']:.4f}"
    )
    print(f"\nas labelled: expected calibration error {result['as_labelled']['ece']:.4f}")
    _print_curve(result["as_labelled"]["curve"])
    half = result["calibrated"]
    print(f"\ncalibrated on {half['fitted_on']} boxes, tested on the other half: {_counted(half)}")
    at = half["at_threshold"]
    print(
        f"expected calibration error {half['ece']:.4f}; from its threshold {at['threshold']:g} on: {at['boxes']} boxes,"
        f" precision {at['precision']:.4f}, strict {at['strict_precision']:.4f}, recall {at['recall']:.4f}"
    )
    _print_curve(half["curve"])
    if "against" in result:
        _print_comparison(result["against"])


def _print_comparison(row: dict[str, Any]) -> None:
    print(
        f"\nentities with a right box, mean over images: {row['system']:.4f}, {row['baseline']:.4f} before; difference "
        f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}], p = {row['p_randomisation']:.3f}"
    )


def _counted(result: dict[str, Any]) -> str:
    names = ("images", "entities", "true_boxes", "boxes", "not_drawn", "unmatched")
    return ", ".join(f"{name.replace('_', ' ')} {result[name]}" for name in names)


def _print_curve(curve: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from groundling.commands.score_table import show

    columns = list(curve[0])
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in curve:
        table.add_row(*(str(row[c]) if c == "boxes" else f"{row[c]:.3f}" for c in columns))
    show(table)
