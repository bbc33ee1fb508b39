"""`groundling search`: find images and boxes by what they show."""

from __future__ import annotations

import argparse
import json
from typing import Any

from groundling.commands import whole_number

DESCRIPTION = """\
Find images and boxes by a phrase.

INDEX is a folder that `groundling index` wrote. Each noun phrase of QUERY is compared with all boxes. The score of an
image is the mean, over the phrases, of the score of its best box.
--html writes a page with the images and the boxes."""

EPILOG = """\
examples:
  groundling search photos.index "a dog on a boat"
  groundling search photos.index "two children with a red ball" --top 30 --html hits.html
  groundling search photos.index "a bicycle" --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("index", metavar="INDEX", help="folder that `groundling index` wrote")
    parser.add_argument("query", metavar="QUERY", help="what to look for, in words")
    parser.add_argument("--top", type=whole_number(1), default=10, metavar="N", help="images to print (default 10)")
    parser.add_argument("--model", default="", metavar="RUN", help="the grounder of the index (default: the package's)")
    parser.add_argument("--html", metavar="FILE", help="also write a page with the images and their boxes")
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_file
    from groundling.search.index import open_index

    page = new_file(args.html) if args.html else None
    hits = open_index(args.index, args.model).search(args.query, args.top)
    if args.json:
        for hit in hits:
            print(json.dumps(_row(hit)))
    else:
        _print(hits)
    if page:
        from groundling.search.page import write

        write(page, args.query, hits)


def _row(hit: Any) -> dict[str, Any]:
    boxes = [
        {"query": phrase, "phrase": entry.phrase, "box": list(entry.box), "score": round(score, 4)}
        for phrase, entry, score in hit.boxes
    ]
    return {"id": hit.id, "image": hit.media, "score": round(hit.score, 4), "boxes": boxes}


def _print(hits: Any) -> None:
    from rich.table import Table

    from groundling.commands.score_table import show

    table = Table("image", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    table.add_column("boxes")
    for hit in hits:
        boxes = "; ".join(f"{entry.phrase} ({score:.2f})" for _, entry, score in hit.boxes)
        table.add_row(hit.id, f"{hit.score:.3f}", boxes)
    show(table)
