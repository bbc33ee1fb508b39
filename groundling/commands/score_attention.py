"""`groundling score attention`: does a model attend to the right regions?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from groundling.commands.score_table import add_common, add_iou, compared, ends, print_scores, resampled, show

DESCRIPTION = """\
Score attention accuracy: the model reads the reference captions. At each word that has a box, the region with the
largest attention must overlap it (IoU above 0.5). The accuracy is averaged over object classes, by the rules of the
grounding evaluators for given sentences. The captions that the model would generate itself do not matter.

RUN is a folder that `groundling train --out` wrote. It holds a captioner, whose attention is taken when the word comes
next, or a matcher, whose alignment of the word is taken, so that teachers and students are measured alike. A word for
which the model has no region counts as a miss.

--localizer scores the localizer of a run of `cyclical` instead, given the word alone. Cyclical training assumes that it
is better than the attention that learns from it (Ma et al. 2020, section 4.4: 20.4 to 19.3 %)."""

EPILOG = """\
examples:
  groundling score attention runs/updown --data scenes --regions scenes.regions --split val
  groundling score attention runs/cyclical --localizer --data scenes --regions scenes.regions --split val
  groundling score attention runs/matcher --data scenes --regions scenes.regions --split val --bootstrap 1000 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of the model")
    parser.add_argument("--data", required=True, type=Path, metavar="DATA", help="data set with boxes of phrases")
    parser.add_argument("--regions", required=True, type=Path, metavar="STORE", help="its region store")
    parser.add_argument("--localizer", action="store_true", help="score the localizer of a run of `cyclical`")
    parser.add_argument("--split", metavar="NAME", help="split to read (default: all images of the data)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument("--skip-bad", action="store_true", help="leave out items of the data set that cannot be read")
    add_iou(parser)
    add_common(parser, "run", "print JSON, with the words of each class")


def run(args: argparse.Namespace) -> None:
    from dataclasses import asdict

    from groundling.data.dataset import load
    from groundling.evaluation.attention_accuracy import attention_accuracy
    from groundling.inference.loading import device_of, load_model
    from groundling.metrics.evaluation import finite
    from groundling.metrics.grounding import ReferenceGrounding
    from groundling.regions.store import Store

    store, data = Store.open(args.regions), load(args.data, skip_bad=args.skip_bad)
    device = device_of(args.device)

    def evaluate(run: Path) -> ReferenceGrounding:
        model = load_model(run, device)
        return attention_accuracy(model, data, store, args.split, iou=args.iou, device=device, localizer=args.localizer)

    result = evaluate(args.model)
    statistics = list(result.statistics().values())
    scores, intervals = [each.score() for each in statistics], resampled(statistics, args.bootstrap)
    baseline = list(evaluate(args.baseline).statistics().values()) if args.baseline else None
    tests = compared(statistics, baseline, args.bootstrap)
    if args.json:
        by_class = {name: {"hits": hits, "words": words} for name, (hits, words) in result.by_class().items()}
        row = {"scores": [asdict(score) for score in scores], "by_class": by_class} | ends(intervals, tests)
        print(json.dumps(finite(row), allow_nan=False))
        return
    print_scores(scores, intervals, tests)
    _print_classes(result.by_class())


def _print_classes(tally: Mapping[str, tuple[int, int]]) -> None:
    from rich.table import Table

    table = Table("class", box=None, pad_edge=False)
    for name in ("accuracy", "words"):
        table.add_column(name, justify="right")
    for name, (hits, words) in tally.items():
        table.add_row(name, f"{hits / words:.4f}", str(words))
    all_hits, all_words = (sum(column) for column in zip(*tally.values(), strict=True))
    table.add_row("all words", f"{all_hits / all_words:.4f}", str(all_words))
    print()
    show(table)
