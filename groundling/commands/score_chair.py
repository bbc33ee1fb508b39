"""`groundling score chair`: hallucinated objects."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from groundling.commands.score_table import add_common, compared, ends, print_scores, resampled, signatures

DESCRIPTION = """\
Compute CHAIR: the share of mentioned objects that are not in the image (CHAIRi), and the share of captions that mention
such an object (CHAIRs). An image holds what its reference captions mention and, with --instances, what its instances
name.

SYNONYMS has one set per line, `dog, puppy, hound`; the first word names it, and is the label of instances. The list
may have any classes. The official script, and this one by default, recognise names of several words only if COCO has
them; --long-names recognises all ("palm tree"). docs/audit.md says when to use CHAIR, and when `groundling audit`."""

EPILOG = """\
examples:
  groundling score chair --pred results.json --refs captions_val2014.json --synonyms synonyms.txt \\
      --instances instances_val2014.json
  groundling score chair --pred results.json --refs captions.json --synonyms garden.txt --long-names"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--pred", type=Path, required=True, metavar="RESULTS", help="COCO results, or our JSON lines")
    parser.add_argument("--refs", type=Path, required=True, metavar="CAPTIONS", help="COCO captions file")
    parser.add_argument("--synonyms", type=Path, required=True, metavar="SYNONYMS", help="synonym sets, one per line")
    parser.add_argument("--instances", type=Path, metavar="FILE", help="COCO instances file")
    parser.add_argument(
        "--long-names", action="store_true", help="recognise every name of several words, not only those of COCO"
    )
    add_common(parser, "results", "print JSON, with every caption")


def run(args: argparse.Namespace) -> None:
    from groundling.metrics.caption_files import read_predictions, read_references
    from groundling.metrics.chair import Chair, read_synonyms, score_chair
    from groundling.metrics.evaluation import finite

    references = [(image, text) for image, texts in read_references(args.refs).items() for text in texts]
    instances = _instances(args.instances) if args.instances else []
    synonyms = read_synonyms(args.synonyms)

    def scored(pred: Path) -> Chair:
        return score_chair(read_predictions(pred).items(), references, synonyms, instances, long_names=args.long_names)

    result = scored(args.pred)
    statistics = list(result.statistics().values())
    intervals = resampled(statistics, args.bootstrap)
    baseline = list(scored(args.baseline).statistics().values()) if args.baseline else None
    tests = compared(statistics, baseline, args.bootstrap)
    if args.json:
        print(json.dumps(finite(result.to_dict() | signatures(statistics) | ends(intervals, tests)), allow_nan=False))
    else:
        print_scores([one.score() for one in statistics], intervals, tests)


def _instances(path: Path) -> list[tuple[str, str]]:
    """(image, category) of every instance."""
    from groundling.files import Location, read_json

    file, name = read_json(path, "instances")
    location = Location(name)
    labels: dict[Any, str] = {}
    for i, row in enumerate(location.get(file, "categories", list)):
        labels[location.at("categories", i).get(row, "id", int)] = location.at("categories", i).get(row, "name", str)
    instances = []
    for i, row in enumerate(location.get(file, "annotations", list)):
        at = location.at("annotations", i)
        category = at.get(row, "category_id", int)
        if category not in labels:
            raise at.error(f"category {category} is not among the categories of the file")
        instances.append((at.id(row, "image_id"), labels[category]))
    return instances
