"""`groundling df`: document frequencies of a caption corpus."""

from __future__ import annotations

import argparse
from pathlib import Path

from groundling.errors import printable

DESCRIPTION = """\
Count the document frequencies of n-grams of 1 to 4 words: in the captions of how many images each occurs.

With this table CIDEr can be computed on few images, even one, and compared across test sets: `groundling score captions
--df FILE`. Signatures name the table by a digest of its content.

With --end, this word is added after the last word of each caption, as in the reward of self-critical training
(`groundling.metrics.CiderReward`). Do not use it for a table to score with."""

EPILOG = """\
examples:
  groundling df captions_train2014.json -o train.df
  groundling df captions_train2014.json --end '<eos>' -o reward.df
  groundling score captions --pred one.json --refs refs.json --metrics cider-d --df train.df"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("captions", type=Path, metavar="CAPTIONS", help="COCO captions file")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="file to write the table to")
    parser.add_argument("--end", metavar="WORD", help="count this word as the end of every caption")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_file
    from groundling.metrics.captions import document_frequency

    out = new_file(args.out, args.captions)
    df = document_frequency(args.captions, args.end)
    df.save(out)
    print(printable(f"{args.out}: {sum(map(len, df.tables)):,} n-grams of {df.images:,} images, df:{df.digest}"))
