"""What benches of models on stored regions share: arguments, the region store, the first images of a split."""

from __future__ import annotations

import argparse

from groundling.data.dataset import load
from groundling.regions.store import Store
from groundling.types import Example


def parser(description: str | None, images: int) -> argparse.ArgumentParser:
    """Arguments of a bench: DATA, --regions, --model, --split and --images (by default `images`)."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("data", help="a data set")
    made.add_argument("--regions", required=True, help="its region store")
    made.add_argument("--model", default="", help="folder of the model (default: the package's)")
    made.add_argument("--split", default="val", help="split (default val)")
    made.add_argument("--images", type=int, default=images, help=f"the first so many images (default {images})")
    return made


def opened(args: argparse.Namespace) -> tuple[Store, tuple[Example, ...]]:
    """The region store, and the examples that the arguments name."""
    return Store.open(args.regions), load(args.data, args.split).examples[: args.images]
