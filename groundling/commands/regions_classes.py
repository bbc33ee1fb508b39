"""`groundling regions classes`: which phrases of a data set have a class of a detector."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

DESCRIPTION = """\
Count the noun phrases of a data set that a detector has a class for.

The last noun of a phrase decides. It fits a class by its name or singular, by a synonym of its most frequent meaning in
WordNet, or by a broader kind: "spectators" are of the class person, a "sweater" is clothing. Distillation (`groundling
train two_branch`) learns from the phrases that have a class. FILE holds names of classes, one per line: those of COCO,
Open Images, Visual Genome or any other detector. With --regions they are those of the regions' detector.

examples:
  groundling regions classes flickr30k --labels openimages.txt
  groundling regions classes flickr30k --regions flickr30k.regions --split train --json"""

SHOWN = 20  # classes in the table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="a data set")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--labels", type=Path, metavar="FILE", help="names of classes, one per line")
    which.add_argument("--regions", metavar="STORE", help="the classes of the detector of these regions")
    parser.add_argument("--split", default="train", help="phrases of this split (default train)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from groundling.data.dataset import load
    from groundling.errors import DataError
    from groundling.regions.store import Store
    from groundling.text.labels import Labels, coverage, read_labels
    from groundling.text.noun_phrases import joined

    names = read_labels(args.labels) if args.labels else Store.open(args.regions).fingerprint.labels
    if not names:
        raise DataError(f"the regions of {args.regions} have no classes: name some with --labels FILE")
    examples = load(args.data, args.split)
    spans = ((caption, span) for example in examples for caption in example.captions for span in joined(caption))
    counted = coverage(spans, Labels(names))
    if args.json:
        print(json.dumps(asdict(counted) | {"covered": counted.covered}))
        return 0
    print(f"{counted.covered:,} of {counted.phrases:,} different phrases have one of {len(names)} classes:")
    for way, n in counted.by_way.items():
        print(f"  {n:7,} by {way}")
    print(f"{counted.covered_mentions:,} of {counted.mentions:,} mentions of phrases do")
    for name, n in list(counted.by_label.items())[:SHOWN]:
        print(f"  {n:7,} {name}")
    return 0
