"""`groundling score classes`: does the class of a region fit what people drew there?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from groundling.commands.score_table import add_common, add_iou, compared, ends, print_scores, resampled

DESCRIPTION = """\
Score region classification ("Cls." in the papers): a region that overlaps an annotated box (IoU above 0.5) should have
the class of that box. The accuracy is averaged over the object classes of the split; a class that no region
covers counts 0, so the regions limit the accuracy too.

RUN is a folder that `groundling train --out` wrote: a captioner with the grounding-aware encoder, as updown_aware and
recipes that build on it. Without RUN, the detector's labels in the region store are scored, where they name classes of
the data."""

EPILOG = """\
examples:
  groundling score classes runs/aware --data scenes --regions scenes.regions --split val
  groundling score classes --data flickr30k --regions flickr30k.regions --split test --bootstrap 1000 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "model", nargs="?", type=Path, metavar="RUN", help="folder of the model (default: the detector of STORE)"
    )
    parser.add_argument("--data", required=True, type=Path, metavar="DATA", help="data set with boxes of phrases")
    parser.add_argument("--regions", required=True, type=Path, metavar="STORE", help="its region store")
    parser.add_argument("--split", metavar="NAME", help="split to score (default: all images of the data)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument("--skip-bad", action="store_true", help="leave out items of the data set that cannot be read")
    add_iou(parser)
    add_common(parser, "run")


def run(args: argparse.Namespace) -> None:
    from dataclasses import asdict

    from groundling.data.dataset import load
    from groundling.evaluation.attention_accuracy import labelled
    from groundling.evaluation.region_classes import by_detector, by_model, named_regions
    from groundling.inference.loading import device_of, load_model
    from groundling.metrics.evaluation import classify_examples, finite
    from groundling.metrics.statistics import Statistics
    from groundling.progress import track
    from groundling.regions.fingerprints import require
    from groundling.regions.store import Store
    from groundling.text.classes import groundable_words

    store, data = Store.open(args.regions), load(args.data, skip_bad=args.skip_bad)
    examples = labelled(data, args.split)
    store.require(example.id for example in examples)

    def evaluate(run: Path | None) -> Statistics:
        device = device_of(args.device if run else "cpu")
        if run is not None:
            model = load_model(run, device)
            require(store.fingerprint, model.fingerprint)
            steps = named_regions(by_model(model), store, examples, model.recipe.data.regions_per_image, device)
        else:
            training = data.split("train") if "train" in data.splits else data
            names = by_detector(store.fingerprint, groundable_words(training))
            steps = named_regions(names, store, examples, None, device)
        regions = dict(track(steps, "regions", len(examples)))
        fields = {"data": data.name, "by": "model" if run else "detector"}
        fields |= {"split": args.split} if args.split else {}
        return classify_examples(regions, examples, args.iou, fields)

    statistics = evaluate(args.model)
    intervals = resampled([statistics], args.bootstrap)
    tests = compared([statistics], [evaluate(args.baseline)] if args.baseline else None, args.bootstrap)
    if args.json:
        row = {"scores": [asdict(statistics.score())]} | ends(intervals, tests)
        print(json.dumps(finite(row), allow_nan=False))
    else:
        print_scores([statistics.score()], intervals, tests)
