"""`groundling index`: make labelled images searchable."""

from __future__ import annotations

import argparse
import json

from groundling.commands import probability, whole_number
from groundling.errors import printable

DESCRIPTION = """\
Make labelled images searchable by phrases.

LABELS is a folder that `groundling label --out LABELS` wrote. Every box of a label gets a vector: the grounder's
vector of its phrase and, with --regions, that of its region. Below 50,000 boxes a search compares the query with all of
them. Above that it uses an approximate index (usearch); its recall of the ten nearest, the mean over 200 phrases of the
labels, is printed."""

EPILOG = """\
examples:
  groundling index labels --out photos.index
  groundling index labels --out photos.index --regions photos.regions --min-confidence 0.4
  groundling search photos.index "a dog on a boat" """


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from groundling.search.vectors import EXACT_BELOW

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("labels", metavar="LABELS", help="folder that `groundling label` wrote")
    parser.add_argument("--out", required=True, metavar="INDEX", help="folder to write")
    parser.add_argument(
        "--model", default="", metavar="RUN", help="the grounder that made the labels (default: the package's)"
    )
    parser.add_argument(
        "--regions", default="", metavar="STORE", help="region store of the images, to search by what they show"
    )
    parser.add_argument(
        "--min-confidence",
        type=probability,
        default=0.3,
        metavar="P",
        help="leave out boxes with a lower confidence (default 0.3)",
    )
    parser.add_argument(
        "--exact-below",
        type=whole_number(0),
        default=EXACT_BELOW,
        metavar="N",
        help=f"compare with all boxes if there are fewer than N (default {EXACT_BELOW:,}); else an approximate index",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_folder
    from groundling.labels import engine, grounder
    from groundling.search.index import build

    least = args.min_confidence
    images = engine.Labelled(args.labels, change=lambda image: image.above(least))
    about = build(images, new_folder(args.out), grounder.load(args.model), args.regions, args.exact_below)
    if args.json:
        print(json.dumps(about))
        return
    how = "exact" if about["exact"] else f"a graph, recall {about['recall']:.3f} of exact search"
    print(printable(f"{args.out}: {about['boxes']} boxes of {about['images']} images; {how}"))
