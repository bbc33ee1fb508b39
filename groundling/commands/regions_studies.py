"""`groundling regions truth` and `biased`: the detectors of a study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from groundling.data.dataset import Dataset
    from groundling.tensors import Regions
    from groundling.text.classes import Classes
    from groundling.types import Fingerprint

TRUTH = """\
Write the annotated boxes of a data set to a store, as a perfect detector would find them.

Each box is a region. Its feature has a column for every frequent object word, with 1 for the words of its phrases; the
last column stands for all other words. So the first layer of any recipe learns an embedding of object words. An image
without boxes is one region. The words come from the train split. Such regions contain what the captions of the test
split say: their scores are an upper bound, never a result.

example:
  groundling regions truth data/flickr30k --out truth.regions
  groundling train cyclical --data data/flickr30k --regions truth.regions --out runs/perfect"""

BIASED = """\
Relabel the regions of a store by a classifier that knows only the annotated object words, and write them to another.

This imitates a detector that was trained on the boxes of this data set alone. A classifier with one hidden layer learns
on the train split which object word a region shows, or that it shows background. The hidden layer becomes the feature,
the predicted word the label; the boxes stay. As boxes of the train split are used, captioners that learn from such
regions are no longer weakly supervised.

example:
  groundling regions biased data/flickr30k --regions butd.regions --out biased.regions"""


def add_truth(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a data set with boxes")
    parser.add_argument("--out", required=True, type=Path, metavar="STORE", help="folder to write")
    _train_split(parser)


def add_biased(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a data set with boxes")
    parser.add_argument("--regions", required=True, type=Path, metavar="STORE", help="its regions")
    parser.add_argument("--out", required=True, type=Path, metavar="STORE", help="folder to write")
    _train_split(parser)


def run_truth(args: argparse.Namespace) -> int:
    from groundling.papers.detectors import perfect, perfect_fingerprint

    dataset, classes = _data(args)
    by_id = {example.id: example for example in dataset}
    return _write(args.out, perfect_fingerprint(classes), list(by_id), lambda id: perfect(by_id[id], classes))


def run_biased(args: argparse.Namespace) -> int:
    from groundling.papers.detectors import biased_fingerprint, seen_through, train_biased
    from groundling.regions.store import Store

    dataset, classes = _data(args)
    store = Store.open(args.regions)
    head = train_biased(dataset.split(args.train_split), store, classes)
    made_by = biased_fingerprint(head, store.fingerprint, classes)
    return _write(args.out, made_by, list(store.ids), lambda id: seen_through(head, store[id]))


def _train_split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--train-split", default="train", metavar="NAME", help="split that gives the words (default train)"
    )


def _data(args: argparse.Namespace) -> tuple[Dataset, Classes]:
    """The data set and the object words of its training split."""
    from groundling.data.dataset import load
    from groundling.errors import DataError
    from groundling.text.classes import groundable_words

    dataset = load(args.data)
    if not any(phrase.boxes for example in dataset.split(args.train_split) for phrase in example.gold):
        raise DataError(f"the split {args.train_split!r} of {args.data} has no boxes")
    return dataset, groundable_words(dataset.split(args.train_split))


def _write(out: Path, made_by: Fingerprint, ids: Sequence[str], find: Callable[[str], Regions]) -> int:
    from groundling.progress import track
    from groundling.regions.store import Writer

    with Writer(out, made_by) as writer:
        missing = [id for id in ids if id not in writer.done]
        for id in track(missing, f"regions to {out}", len(missing)):
            writer.add(id, find(id))
    print(printable(f"{out}: {len(ids)} images, {len(missing)} of them new"))
    return 0
