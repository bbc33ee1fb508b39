"""`groundling official`: the files that the official grounding evaluators read."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from groundling.errors import printable

DESCRIPTION = """\
Write the reference file and the split file of a data set for the official grounding evaluators.

Pictures become the files of Flickr30k-Entities, videos (ids VIDEO_segment_NN, boxes with frames) those of
ActivityNet-Entities. Together with the submission of `groundling caption --submission` they go into the original
evaluators, or into `groundling score flickr30k-entities` and `groundling score activitynet-entities`, which give the
same numbers. The classes of words are those of the data set. If it has none, they are the classes that training uses:
lemmas of the head nouns of frequent phrases."""

EPILOG = """\
examples:
  groundling official moving --out official
  groundling caption moving --split val --regions moving.regions --model runs/moving --submission official/val.json
  groundling score activitynet-entities --submission official/val.json --reference official/reference.json \\
      --split-file official/splits.json --split validation"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("data", type=Path, metavar="DATA", help="data set with boxes")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder for reference.json and splits.json")
    parser.add_argument("--skip-bad", action="store_true", help="leave out items that break the format")


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_folder
    from groundling.data import evaluator_files
    from groundling.errors import DataError
    from groundling.evaluation.evaluator import CaptionEvaluator
    from groundling.files import save_text

    out = new_folder(args.out)
    evaluator = CaptionEvaluator.of(args.data, skip_bad=args.skip_bad)
    if not evaluator.links:
        raise DataError(f"{args.data}: this data set has no boxes, so grounding cannot be evaluated on it")
    video = any(phrase.frames for example in evaluator.examples for phrase in example.gold)
    if video:
        reference, splits = (
            evaluator_files.video_reference(evaluator.examples),
            evaluator_files.video_splits(evaluator.examples),
        )
    else:
        reference, splits = (
            evaluator_files.image_reference(evaluator.examples),
            evaluator_files.image_splits(evaluator.examples),
        )
    for name, content in (("reference.json", reference), ("splits.json", splits)):
        save_text(out / name, json.dumps(content))
    kind = "activitynet-entities" if video else "flickr30k-entities"
    sizes = ", ".join(f"{split} {len(ids)}" for split, ids in splits.items() if ids)
    print(printable(f"{out}: reference.json and splits.json ({sizes}) for `groundling score {kind}`"))
