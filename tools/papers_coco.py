"""Lay out the part of COCO that docs/papers.md measures tables on, as a data set of its own.

    python tools/papers_coco.py COCO OUT

COCO is a data set of captions with the splits train and val. OUT gets `captions.jsonl`, which points at the images of
COCO, with three splits, each in the order of COCO: `train`, its first images of train; `val`, the first images of val,
by which epochs are chosen; and `val-rest`, the next images of val, which are scored and by which nothing is chosen.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from groundling.data.dataset import Dataset, load
from groundling.errors import GroundlingError
from groundling.files import saved
from groundling.types import Example

TRAIN, VAL, REST = 10_000, 500, 2_000


def part(data: Dataset, train: int = TRAIN, val: int = VAL, rest: int = REST) -> Iterator[tuple[str, Example]]:
    """Names of splits and their examples. GroundlingError where the data set is too small."""
    learned, other = data.split("train").examples, data.split("val").examples
    for name, have, wanted in (("train", learned, train), ("val", other, val + rest)):
        if len(have) < wanted:
            raise GroundlingError(f"{data.root}: {name} has {len(have)} images; {wanted} are needed")
    yield from (("train", example) for example in learned[:train])
    yield from (("val", example) for example in other[:val])
    yield from (("val-rest", example) for example in other[val : val + rest])


def line(split: str, example: Example) -> str:
    captions = [caption.text for caption in example.captions]
    row = {"id": example.id, "image": str(Path(example.media).resolve()), "split": split, "captions": captions}
    return json.dumps(row, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coco", type=Path, metavar="COCO")
    parser.add_argument("out", type=Path, metavar="OUT")
    args = parser.parse_args()
    lines = [line(split, example) for split, example in part(load(args.coco, annotated=False))]
    args.out.mkdir(parents=True, exist_ok=True)
    with saved(args.out / "captions.jsonl") as file:
        file.write("".join(lines).encode())


if __name__ == "__main__":
    main()
