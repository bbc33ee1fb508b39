"""`groundling score labels`: labels against boxes that people drew."""

from __future__ import annotations

import argparse
import json
from typing import Any

DESCRIPTION = """\
Labels against boxes that people drew: precision and recall over confidence at IoU 0.5, calibration, and merged phrases
against the entities of the annotators.

LABELS is what `groundling label --out LABELS` made of a data set with boxes of phrases. Labels that were left out for
lack of confidence are judged too: the curve says what another threshold would give. `calibrated` is what a calibration
gives that was fitted on the other half of the images; --calibrate keeps one that is fitted on all of them."""

EPILOG = """\
examples:
  groundling label flickr30k --split val --regions flickr30k.regions --out labels
  groundling score labels labels --data flickr30k --split val
  groundling score labels labels --data flickr30k --split val --calibrate runs/grounder/labels.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("labels", metavar="LABELS", help="folder that `groundling label` wrote")
    parser.add_argument("--data", required=True, metavar="DATA", help="the data set, with boxes of phrases")
    parser.add_argument("--split", help="the split that was labelled")
    parser.add_argument("--calibrate", metavar="FILE", help="fit the confidence to these boxes, and keep it here")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_file
    from groundling.data.dataset import load
    from groundling.labels import engine, files
    from groundling.labels.truth import report

    kept = new_file(args.calibrate) if args.calibrate else None
    images = engine.Labelled(args.labels)
    with files.opened(files.join(args.labels, engine.JOB)) as file:
        digest = str(json.loads(file.read())["settings"].get("grounder", ""))
    told, fitted = report(images, load(args.data, args.split, annotated=False).by_id, digest)
    if kept:
        files.write(str(kept), json.dumps(fitted.to_json(), indent=1).encode())
    if args.json:
        print(json.dumps(told))
        return
    _print(told)
    if kept:
        print(f"\n{kept}: fitted on {fitted.boxes} boxes")


def _print(told: dict[str, Any]) -> None:
    from rich.table import Table

    from groundling.commands.score_table import show

    names = ("images", "entities", "true_boxes", "boxes", "not_drawn", "unmatched")
    print(", ".join(f"{name.replace('_', ' ')} {told[name]}" for name in names))
    chains = told["chains"]
    print(
        f"chains, over {chains['mentions']} mentions: pairs precision {chains['precision']:.4f}, "
        f"recall {chains['recall']:.4f}, F1 {chains['f1']:.4f}; B-cubed F1 {chains['b3']:.4f}"
    )
    for name in ("as_labelled", "calibrated"):
        print(f"\n{name.replace('_', ' ')}: expected calibration error {told[name]['ece']:.4f}")
        columns = list(told[name]["curve"][0])
        table = Table(box=None, pad_edge=False)
        for column in columns:
            table.add_column(column.replace("_", " "), justify="right")
        for row in told[name]["curve"]:
            table.add_row(*(str(row[c]) if c == "boxes" else f"{row[c]:.3f}" for c in columns))
        show(table)
