"""Photos captioned by onnxruntime and by torch: are captions, boxes and evidence the same, and what does each cost?

    python bench/runtimes.py PHOTOS [--most 1000] [--json runtimes.json]

PHOTOS is a folder. Both caption the same windows of photos in turns. A box is the same if no side is a pixel off, a
number if it differs by less than 0.001. Processor milliseconds are of all threads, without loading.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice
from pathlib import Path
from typing import Any

import groundling
from groundling.regions.jobs import images_below

WINDOW = 16
PIXEL, NUMBER = 1.0, 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--most", type=int, default=1000, help="photos (default 1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    captioners = {runtime: groundling.load(runtime=runtime) for runtime in ("onnx", "torch")}
    spent, found = dict.fromkeys(captioners, 0.0), {"photos": 0, "captions": 0, "boxes": 0, "evidence": 0}
    files = iter([job.path for job in images_below(args.photos)][: args.most])
    while some := list(islice(files, WINDOW)):
        captions = {}
        for runtime, captioner in captioners.items():
            start = time.process_time()
            captions[runtime] = [caption.to_dict() for caption in captioner.caption(some)]
            spent[runtime] += time.process_time() - start
        for ours, theirs in zip(captions["onnx"], captions["torch"], strict=True):
            for what, same in compared(ours, theirs).items():
                found[what] += same
    cost = {f"{runtime}_cpu_ms": round(1000 * seconds / found["photos"], 1) for runtime, seconds in spent.items()}
    print(*(f"{what}: {value}" for what, value in (found | cost).items()), sep="\n")
    if args.json:
        args.json.write_text(json.dumps(found | cost, indent=1) + "\n")


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, bool]:
    """Whether the captions are the same; and also the boxes; and also the evidence."""
    captions = ours["caption"] == theirs["caption"]
    pairs = list(zip(ours["links"], theirs["links"], strict=True)) if captions else []
    boxes = captions and all(abs(a - b) < PIXEL for x, y in pairs for a, b in zip(x["box"], y["box"], strict=True))
    evidence = boxes and all(_near(x["evidence"], y["evidence"]) for x, y in pairs)
    return {"photos": True, "captions": captions, "boxes": boxes, "evidence": evidence}


def _near(one: float | None, other: float | None) -> bool:
    return one is other is None or (one is not None and other is not None and abs(one - other) < NUMBER)


if __name__ == "__main__":
    main()
