"""METEOR against its jar, in one run: time, equality, and what the very first run costs.

    python bench/meteor.py [--images 5000] [--rounds 3]

Captions are those of COCO that pycocoevalcap carries, 5 references each, tokenised beforehand. The jar pays for its
start and for its tables, as its users do; so do we for our word lists, in every round. The first run ever also makes
the index of the paraphrase table: that is measured apart, in a process and a cache folder of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from captions import coco, hypotheses_of
from results import compare, row, timed, told, write

from groundling.metrics import meteor as package
from groundling.metrics.meteor import lexicon, meteor
from groundling.text.ptb import token_text

FIRST = "from groundling.metrics.meteor import meteor; meteor(['a dog'], [['a cat']])"


def first_run() -> None:
    command = [sys.executable, "-c", FIRST]
    with tempfile.TemporaryDirectory() as folder:
        where = {**os.environ, "XDG_CACHE_HOME": folder}
        first, later = (
            timed(lambda: subprocess.run(command, env=where, check=True, stderr=subprocess.DEVNULL)).wall / 1000
            for _ in range(2)
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"one caption: first run ever {first:.1f} s, {peak:.0f} MB at most; later runs {later:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    first_run()
    raw = coco(args.images)
    hypotheses = [token_text(text) for text in hypotheses_of(raw).values()]
    references = [[token_text(text) for text in texts] for texts in raw.values()]
    found: dict[bool, Any] = {}

    def ours() -> None:
        package._lexicon.cache_clear()
        lexicon.java_hash.cache_clear()
        found[False] = meteor(hypotheses, references)

    def jar() -> None:
        found[True] = meteor(hypotheses, references, java=True)

    one = row(f"METEOR, {len(hypotheses):,} x 5, its jar", compare(args.rounds, jar, ours), 1)
    print(told(one))
    different = int((np.asarray(found[False].values) != np.asarray(found[True].values)).any(1).sum())
    print(f"images with other statistics: {different}")
    print(f"METEOR {found[False].score().value:.6f}, by the jar {found[True].score().value:.6f}")
    if args.json:
        write(args.json, [one])


if __name__ == "__main__":
    main()
