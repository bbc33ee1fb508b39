"""The upper bound of grounding: how many annotated phrases have a region to point at, and what a region costs.

    python bench/proposals.py DATA                    # all images of the validation split, 36, 50 and 100 regions
    python bench/proposals.py DATA --images 200       # the first 200, sooner
    python bench/proposals.py DATA --store STORE      # regions made before, by any source

A phrase counts when one of the first so many regions has an IoU of more than 0.5 with any of its boxes (`any`), or
with the box around all of them (`union`). Phrases without boxes do not count.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from groundling.boxes import iou
from groundling.data.dataset import load
from groundling.images import open_image
from groundling.regions.sources import source
from groundling.regions.store import Store
from groundling.types import Example

COUNTS = (36, 50, 100)


def hits(regions: Tensor, truth: Tensor) -> Tensor:
    """(R, 4) regions, (P, 4) boxes of one phrase -> (2, len(COUNTS)) bool: any box, union of the boxes."""
    around = torch.cat([truth[:, :2].amin(0), truth[:, 2:].amax(0)])[None]
    found = torch.stack([(iou(regions, boxes) > 0.5).any(1) for boxes in (truth, around)])  # (2, R)
    return torch.stack([found[:, :count].any(1) for count in COUNTS], 1)


def measure(examples: list[Example], regions_of: Callable[[Example], Tensor]) -> dict[str, Tensor]:
    """For each kind of phrase, and "all": (phrases, 2, len(COUNTS)) bool."""
    found: dict[str, list[Tensor]] = defaultdict(list)
    for example in track(examples, console=Console(stderr=True), description="looking"):
        regions = regions_of(example)
        for phrase in example.gold:
            if phrase.boxes:
                hit = hits(regions, torch.tensor(phrase.boxes))
                for kind in ("all", *phrase.kinds):
                    found[kind].append(hit)
    return {kind: torch.stack(rows) for kind, rows in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set with phrases and boxes")
    parser.add_argument("--split", default="val")
    parser.add_argument("--images", type=int, help="only the first so many")
    parser.add_argument("--store", type=Path, help="regions made before; otherwise by the source for photos")
    args = parser.parse_args()

    examples = list(load(args.data, args.split, annotated=False))[: args.images]
    seconds = []
    if args.store:
        store = Store.open(args.store)
        found = measure(examples, lambda example: store[example.id].boxes[0])
    else:
        photos = source("photos", regions=max(COUNTS))

        def look(example: Example) -> Tensor:
            image = open_image(example.media)
            start = time.perf_counter()
            boxes = photos(image).boxes[0]
            seconds.append(time.perf_counter() - start)
            return boxes

        found = measure(examples, look)

    table = Table("phrases", "n", *(f"{count}: any / union" for count in COUNTS))
    for kind in sorted(found, key=lambda k: -len(found[k])):
        share = 100 * found[kind].float().mean(0)  # (2, len(COUNTS))
        table.add_row(kind, str(len(found[kind])), *(f"{a:.1f} / {b:.1f}" for a, b in share.T.tolist()))
    console = Console()
    console.print(table)
    if seconds:
        median = 1000 * sorted(seconds)[len(seconds) // 2]
        console.print(f"{median:.0f} ms per photo (median of {len(seconds)}, {torch.get_num_threads()} threads)")


if __name__ == "__main__":
    main()
