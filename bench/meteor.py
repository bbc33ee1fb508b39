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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from captions import coco, said_of

from groundling.metrics import meteor as package
from groundling.metrics.meteor import lexicon, meteor
from groundling.text.ptb import token_text

FIRST = "from groundling.metrics.meteor import meteor; meteor(['a dog'], [['a cat']])"


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def first_run() -> None:
    command = [sys.executable, "-c", FIRST]
    with tempfile.TemporaryDirectory() as folder:
        where = {**os.environ, "XDG_CACHE_HOME": folder}
        first, later = (
            timed(lambda: subprocess.run(command, env=where, check=True, stderr=subprocess.DEVNULL))[0]
            for _ in range(2)
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"one caption: first run ever {first:.1f} s, {peak:.0f} MB at most; later runs {later:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    first_run()
    raw = coco(args.images)
    said = [token_text(text) for text in said_of(raw).values()]
    true = [[token_text(text) for text in texts] for texts in raw.values()]
    ratios = []
    for _ in range(args.rounds):
        package._lexicon.cache_clear()
        lexicon.java_hash.cache_clear()
        mine, ours = timed(lambda: meteor(said, true))
        other, jar = timed(lambda: meteor(said, true, java=True))
        ratios.append(other / mine)
        print(f"{len(said)} images x 5: ours {mine:.1f} s, jar {other:.1f} s, {other / mine:.1f} times faster")
    different = int((np.asarray(ours.values) != np.asarray(jar.values)).any(1).sum())
    print(f"{statistics.median(ratios):.1f} times faster (median); images with other statistics: {different}")
    print(f"METEOR {ours.score().value:.6f}, by the jar {jar.score().value:.6f}")


if __name__ == "__main__":
    main()
