"""`groundling score flickr30k-entities` and `groundling score activitynet-entities`: the official files as they are."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands.score_table import add_common, add_iou, compared, ends, print_scores, resampled

if TYPE_CHECKING:
    from groundling.metrics.statistics import Statistics

DESCRIPTION = """\
Score a grounding submission as the official evaluator of Flickr30k-Entities or ActivityNet-Entities does.

--mode generated: precision, recall and F1 of generated sentences, averaged over classes and per sentence. "all" also
counts words that only the caption or only the reference has as wrong; "loc" counts words that both have.
--mode gt: accuracy on ground-truth sentences (attention or grounding accuracy, depending on what was submitted).

Rules for odd input: an image or segment without a prediction is missed; predictions for unknown ids lower only the
per-sentence scores, which divide by all sentences handed in; a NaN, infinite, inverted or one-pixel box never hits; a
wrong number of rows, frames or coordinates, and an id or key that occurs twice, is an error. Without --lemmas words are
lemmatised by rules of our own; the official evaluators ask a CoreNLP 3.9.1 server, whose lemmas a table can hold.
A score that is 0 / 0 is NaN, which is null in --json."""

EPILOG = """\
examples:
  groundling score flickr30k-entities --submission s.json --reference flickr30k_cleaned_class.json \\
      --split-file split_ids_flickr30k_entities.json --split test --json
  groundling score activitynet-entities --submission s.json --reference anet_entities_cleaned_class.json \\
      --split-file split_ids_anet_entities.json --split validation --mode gt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--submission", type=Path, required=True, metavar="FILE", help='system output: {"results": {...}}'
    )
    parser.add_argument(
        "--reference", type=Path, required=True, metavar="FILE", help='true words and boxes: {"annotations": ...}'
    )
    parser.add_argument(
        "--split-file", type=Path, required=True, metavar="FILE", help='ids of each split: {"val": [ids], ...}'
    )
    parser.add_argument(
        "--split", required=True, nargs="+", action="extend", metavar="NAME", help="split, or several, to score on"
    )
    parser.add_argument(
        "--mode",
        choices=("generated", "gt"),
        default="generated",
        help="what the sentences are: generated, or ground truth (default: generated)",
    )
    add_iou(parser)
    parser.add_argument("--lemmas", type=Path, metavar="TABLE", help="{word: lemma} in place of the built-in rules")
    add_common(parser, "submission")


def run(args: argparse.Namespace) -> None:
    from groundling.metrics import grounding_image, grounding_video
    from groundling.metrics.evaluation import finite

    image = args.name == "flickr30k-entities"

    def scored(submission: Path) -> tuple[Any, list[Statistics]]:
        """The scores, and their statistics."""
        files = submission, args.reference, args.split_file, args.split
        if args.mode == "gt":
            evaluate = grounding_image.ground_given_image if image else grounding_video.ground_given_video
            given = evaluate(*files, args.iou)
            return given.to_dict(), list(given.statistics().values())
        grounding = (grounding_image.ground_image if image else grounding_video.ground_video)(
            *files, args.iou, args.lemmas
        )
        return grounding.to_dict(), [one for group in grounding.statistics().values() for one in group.values()]

    scores, statistics = scored(args.submission)
    intervals = resampled(statistics, args.bootstrap)
    tests = compared(statistics, scored(args.baseline)[1] if args.baseline else None, args.bootstrap)
    if args.json:
        print(json.dumps(finite(scores | ends(intervals, tests)), allow_nan=False))
    else:
        print_scores([one.score() for one in statistics], intervals, tests)
