"""`groundling retrieve`: images by captions, and captions by images."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import whole_number, whole_numbers
from groundling.commands.score_table import add_bootstrap, ends, print_scores, resampled
from groundling.errors import DataError, GroundlingError

if TYPE_CHECKING:
    import torch

    from groundling.metrics.statistics import Statistics
    from groundling.recipes import Model
    from groundling.regions.store import Store
    from groundling.types import Score

DESCRIPTION = """\
Measure retrieval: how often is the right image among the first k?

RUN is a folder that `groundling train --out` wrote. With a matcher, all captions of the data are scored with all
images; the result is how often the image of a caption (t2i), or a caption of an image (i2t), is among the first k.

With a captioner this is self-retrieval, a measure of how distinctive its captions are: each image is captioned, and all
images are ranked by the captioner's own log p(caption | image). A caption that fits many images does not find its own
again.

Every caption is scored on every image. For thousands of images, --shortlist K scores only K images for each caption,
those that give its words the highest probability one by one; all others rank last. R@k is then an approximation. It is
too low where the caption's own image is not on its list, and too high where better images are missing from the list.
"shortlist recall" is the share of the truly best images that the lists have, 10 for each of 50 captions drawn at
random. If it is near 1, R@k up to 10 is near the exact one."""

EPILOG = """\
examples:
  groundling retrieve runs/scan --data scenes --regions scenes.regions --split val
  groundling retrieve runs/updown --data scenes --regions scenes.regions --split val
  groundling retrieve runs/updown --data coco --regions coco.regions --split test --limit 5000 --ks 1,5,50,500
  groundling retrieve runs/updown --data coco --regions coco.regions --split test --limit 5000 --shortlist 200
  groundling retrieve runs/updown --data scenes --regions scenes.regions --split val --matcher runs/scan --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of the model")
    parser.add_argument("--data", required=True, type=Path, metavar="DATA", help="data set")
    parser.add_argument("--regions", required=True, type=Path, metavar="STORE", help="its region store")
    parser.add_argument("--split", metavar="NAME", help="split to search (default: all images of the data)")
    parser.add_argument("--limit", type=whole_number(1), default=0, metavar="N", help="only the first N images")
    parser.add_argument(
        "--ks",
        type=whole_numbers(1),
        metavar="1,5,…",
        help="the k of R@k for a captioner (default 1,5,10; a matcher always has these, whose sum is its rsum)",
    )
    parser.add_argument(
        "--shortlist",
        type=whole_number(1),
        default=0,
        metavar="K",
        help="score only K images for each caption, so that R@k is an approximation, see above (default: all images)",
    )
    parser.add_argument("--matcher", type=Path, metavar="RUN", help="rank by this matcher's score instead of log p")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument(
        "--threads",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="threads of the CPU (default: all; small models are faster with 1)",
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out items of the data set that cannot be read")
    add_bootstrap(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    import torch

    from groundling.inference.loading import device_of, load_model
    from groundling.metrics.evaluation import finite
    from groundling.regions.fingerprints import require
    from groundling.regions.store import Store

    if args.matcher and args.shortlist:
        raise GroundlingError("--shortlist is for log p; a matcher scores all images at once")
    if args.threads:
        torch.set_num_threads(args.threads)
    device, store = device_of(args.device), Store.open(args.regions)
    model = load_model(args.model, device)
    require(store.fingerprint, model.fingerprint)
    search = _both_ways if "matcher" in model.recipe.saved_modules else _self_retrieval
    statistics, more = search(model, device, store, args)
    intervals = resampled(statistics, args.bootstrap)
    scores = [each.score() for each in statistics] + more
    if args.json:
        row = {"scores": [asdict(score) for score in scores]} | ends(intervals)
        print(json.dumps(finite(row), allow_nan=False))
    else:
        print_scores(scores, intervals)


def _both_ways(
    model: Model, device: torch.device, store: Store, args: argparse.Namespace
) -> tuple[list[Statistics], list[Score]]:
    """R@k of a matcher, with the captions of the data, and the sum of them all."""
    from groundling.data.dataset import load
    from groundling.metrics.retrieval import rsum
    from groundling.papers.reproduce import both_ways

    if args.matcher or args.shortlist or args.ks:
        raise GroundlingError("--matcher, --shortlist and --ks are for a captioner; this model is a matcher")
    data = load(args.data, args.split, skip_bad=args.skip_bad)
    data = replace(data, examples=data.examples[: args.limit or None])
    statistics = both_ways(model, data, store, device, args.split or "", quiet=args.json)
    return statistics, [rsum(statistics)]


def _ids(args: argparse.Namespace, store: Store) -> list[str]:
    from groundling.data.dataset import load

    ids = [example.id for example in load(args.data, args.split, annotated=False, skip_bad=args.skip_bad)]
    ids = ids[: args.limit or None]
    if not ids:
        raise DataError(f"{args.data} has no images to search")
    store.require(ids)
    return ids


def _self_retrieval(
    model: Model, device: torch.device, store: Store, args: argparse.Namespace
) -> tuple[list[Statistics], list[Score]]:
    """R@k of the captioner's own captions and, with a shortlist, what it caught."""
    from groundling import recipes
    from groundling.evaluation.self_retrieval import Gallery
    from groundling.metrics.diversity import self_retrieval

    ids, ks = _ids(args, store), args.ks or (1, 5, 10)
    gallery = Gallery.of(model, store, ids, device)
    if args.matcher:
        return self_retrieval(gallery.matched(recipes.load(args.matcher)), ids, ks, by="matcher"), []
    if not 0 < args.shortlist < len(ids):
        return self_retrieval(gallery.scores(), ids, ks), []
    shortlist = gallery.shortlist(args.shortlist)
    statistics = self_retrieval(gallery.scores(shortlist), ids, ks, by=f"logp,shortlist={args.shortlist}")
    return statistics, [gallery.recall(shortlist)]
