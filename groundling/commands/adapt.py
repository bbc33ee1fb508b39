"""`groundling adapt`: the trained weights, adapted to one's own photos."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import whole_number
from groundling.parallel import AVAILABLE_CORES, torch_threads

if TYPE_CHECKING:
    from groundling.data.dataset import Dataset
    from groundling.regions.store import Store
    from groundling.training.adapt import Change
    from groundling.types import Fingerprint

DESCRIPTION = """\
Adapt the weights that come with the package, or those of a model that you trained, to your own captioned photos. Some
hundred photos are enough; training from nothing needs thousands.

Training goes on from these weights. Words that the model never saw and your captions have twice or more are added. The
grounder is trained first, and its evidence calibrated; then the captioner, until it no longer becomes better. Both are
scored on your validation photos (the split val; without splits, a tenth of the photos is held out), and the scores
before and after are printed. Where training does not clearly help, the model is left as it was. Boxes are not needed;
where your validation photos have them, the grounder is scored by them.

Regions are made in OUT/regions, or taken from --regions. If a run is stopped, the same command continues it."""

EPILOG = """\
examples:
  groundling adapt --data my/data
  groundling adapt --data my/data --out runs/mine
  groundling adapt --data my/data --regions my.regions --out runs/mine --epochs 12
  groundling caption photo.jpg --model runs/mine
  groundling ground photo.jpg "a dog on the grass" --model runs/mine

what my/data may be: a folder with captions.csv (columns image, caption) and the pictures; `groundling doctor my/data`
checks it.

what is written:
  OUT/captioner, OUT/grounder   the adapted models; --model OUT finds both
  OUT/regions                   the regions of your photos"""
FEWEST = 2  # validation photos
FEW = 20  # validation photos below which the numbers say little


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--data", required=True, type=Path, metavar="DATA", help="your captioned photos")
    parser.add_argument(
        "--out", type=Path, default=Path("adapted"), metavar="OUT", help="folder to write (default adapted)"
    )
    parser.add_argument(
        "--regions", type=Path, metavar="STORE", help="region store of your photos (default: computed in OUT/regions)"
    )
    parser.add_argument("--model", default="", metavar="RUN", help="captioner to begin with (default: the package's)")
    parser.add_argument("--grounder", default="", metavar="RUN", help="grounder to begin with (default: the package's)")
    parser.add_argument("--epochs", type=int, metavar="N", help="at most N epochs of the captioner (default 8)")
    parser.add_argument("--train-split", default="train", metavar="NAME", help="split to learn from (default train)")
    parser.add_argument("--val-split", default="val", metavar="NAME", help="split to score on (default val)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed; the same seed gives the same weights (default 0)"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument(
        "--workers", type=int, default=AVAILABLE_CORES, metavar="N", help="processes that compute regions"
    )
    parser.add_argument(
        "--threads", type=whole_number(1), metavar="N", help="threads that train (default 1: the steps are small)"
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out photos and captions that cannot be read")


def run(args: argparse.Namespace) -> int:
    from groundling.errors import GroundlingError
    from groundling.inference.loading import CAPTIONER, GROUNDER, device_of, model_folder
    from groundling.recipes import load
    from groundling.training.adapt import THREADS, Photos, adapt_captioner, adapt_grounder
    from groundling.training.interrupt import Stopped

    if args.epochs is not None and args.epochs < 1:
        raise GroundlingError(f"--epochs must be 1 or more, got {args.epochs}")
    captioner, grounder = model_folder(args.model, CAPTIONER), model_folder(args.grounder, GROUNDER)
    examples, held_out = _data(args)
    regions = str(args.regions or "")
    wanted = load(captioner).fingerprint
    store = region_store(str(args.data), regions, args.out / "regions", wanted, args.workers, args.skip_bad)
    photos = Photos(of_store(examples, store), of_store(held_out, store), store, args.seed, device_of(args.device))
    epochs = {} if args.epochs is None else {"epochs": args.epochs}
    try:
        with torch_threads(args.threads or THREADS):
            changes = [adapt_grounder(grounder, photos, args.out / GROUNDER)]
            guide = args.out / GROUNDER
            changes.append(adapt_captioner(captioner, guide, photos, args.out / CAPTIONER, **epochs))
    except Stopped as stopped:
        print(f"groundling: {stopped}", file=sys.stderr)
        return 128 + stopped.signum
    _print_changes(changes, len(photos.held_out), args.out)
    return 0


def _data(args: argparse.Namespace) -> tuple[Dataset, Dataset]:
    from groundling.data.dataset import load
    from groundling.errors import DataError

    dataset = load(args.data, skip_bad=args.skip_bad)
    n = sum(example.split == args.val_split for example in dataset)
    if n < FEWEST:
        raise DataError(
            f"{args.data} has {n} of its {len(dataset)} photos in the split {args.val_split}, on which both models are "
            f"scored: adapting needs {FEWEST} there, better {FEW}; add photos, or a column split with train and val"
        )
    return dataset.split(args.train_split), dataset.split(args.val_split)


def region_store(
    data: str, regions: str, made: Path, wanted: Fingerprint, workers: int, skip_bad: bool = False
) -> Store:
    """The store at `regions`, or one of the regions that the model needs, made now in `made`."""
    from groundling.commands import call
    from groundling.errors import DataError
    from groundling.regions.fingerprints import require
    from groundling.regions.store import Store

    if not regions:
        chosen = [word for key, value in wanted.parameters.items() for word in ("--set", f"{key}={value}")]
        skip = ["--skip-bad"] if skip_bad else []
        words = ["regions", "extract", data, "--source", wanted.name, "--out", str(made), *chosen, *skip]
        if call([*words, "--workers", str(workers)]):
            raise DataError(f"some photos of {data} cannot be read, see above; --skip-bad leaves them out")
    store = Store.open(regions or made)
    require(store.fingerprint, wanted)
    return store


def of_store(examples: Dataset, store: Store) -> Dataset:
    """Those whose regions could be made."""
    from dataclasses import replace

    return replace(examples, examples=tuple(example for example in examples if example.id in store))


def _print_changes(changes: Sequence[Change], n: int, out: Path) -> None:
    for change in changes:
        name, before, after = change.before.name, change.before.value, change.after.value
        what = f"{change.what}: {name} {before:.4f} -> {after:.4f} on {n} validation photos"
        left = "" if change.helped else f"; training gave {change.tried:.4f}, no clear gain: it was left as it was"
        print(f"{what}, {change.new_words} new words{left}" if change.helped else f"{what}{left}")
    if n < FEW:
        print(f"{n} validation photos are few: differences of this size may be chance")
    print(f"groundling caption photo.jpg --model {out}")
