"""`groundling score human`: how well metrics agree with people."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands.score_table import metric_names, show

if TYPE_CHECKING:
    from groundling.metrics.judgements import Judgements
    from groundling.metrics.statistics import Statistics

DESCRIPTION = """\
Measure how well metrics agree with people: Kendall's tau_b and tau_c, times 100, between people's ratings of captions
and the scores of each metric.

FILE is ExpertAnnotations.txt or CrowdFlowerAnnotations.txt of Flickr8k (the texts are in Flickr8k.token.txt beside it),
a JSON file of {"ground_truth", "human_judgement"}, or a CSV with the columns image, caption, rating, and perhaps more
that begin with "rating", and others that begin with "reference".

As in the CLIPScore paper, every single rating is paired with the score of its caption (for CrowdFlower, the share of
"yes" is), and a caption that is among the references of its image is left out. The papers report tau_c for
Flickr8k-Expert and tau_b for Flickr8k-CF."""

EPILOG = """\
examples:
  groundling score human Flickr8k_text/ExpertAnnotations.txt --metrics bleu,rouge,meteor,cider
  groundling score human ExpertAnnotations.txt --captions Flickr8k.token.txt --metrics grounding --images Images
  groundling score human ratings.csv --refs captions.json --metrics grounding,grounding-ref --images photos --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("file", type=Path, metavar="FILE", help="ratings of captions")
    parser.add_argument(
        "--metrics",
        default="bleu,rouge,cider",
        metavar="NAMES",
        help="of bleu, rouge, cider, cider-d, meteor, spice, grounding, grounding-ref (default: %(default)s)",
    )
    parser.add_argument(
        "--kind",
        default="",
        metavar="NAME",
        help="format of FILE: flickr8k-expert, flickr8k-cf, json, csv (default: by its name)",
    )
    parser.add_argument("--captions", type=Path, metavar="FILE", help="Flickr8k.token.txt (default: beside FILE)")
    parser.add_argument("--refs", type=Path, metavar="CAPTIONS", help="COCO captions file: references of a CSV")
    add_look(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_look(parser: argparse.ArgumentParser) -> None:
    """What grounding and grounding-ref look at."""
    group = parser.add_argument_group("for the metrics grounding and grounding-ref")
    group.add_argument("--images", type=Path, metavar="FOLDER", help="the images")
    group.add_argument("--regions", type=Path, metavar="STORE", help="their region store (default: computed here)")
    group.add_argument(
        "--model", default="", metavar="RUN", help="a grounder that you trained (default: the package's)"
    )


def run(args: argparse.Namespace) -> None:
    from groundling.metrics.agreement import kendall
    from groundling.metrics.judgements import read_judgements

    judgements = read_judgements(args.file, args.captions, _references(args.refs), args.kind)
    which, ratings = zip(*judgements.ratings, strict=True)
    rows = []
    for one in _statistics(judgements, args):
        values = one.per_item()
        tau = kendall([values[i] for i in which], ratings)  # type: ignore[arg-type]
        rows.append((one, tau))
    about = {"kind": judgements.kind, "ratings": len(ratings), "captions": len(judgements.candidates)}
    about |= {"left_out": judgements.left_out}
    if args.json:
        scores = [
            {"metric": one.name, "tau_b": tau.tau_b, "tau_c": tau.tau_c, "signature": one.score().signature}
            for one, tau in rows
        ]
        print(json.dumps(about | {"scores": scores}))
    else:
        _print(about, rows)


def _print(about: dict[str, Any], rows: list[tuple[Statistics, Any]]) -> None:
    from rich.table import Table

    table = Table("metric", box=None, pad_edge=False)
    for name in ("tau_b", "tau_c"):
        table.add_column(name, justify="right")
    table.add_column("signature", style="dim", overflow="fold")
    for one, tau in rows:
        table.add_row(one.name, f"{100 * tau.tau_b:.1f}", f"{100 * tau.tau_c:.1f}", one.score().signature)
    show(table)
    print(
        f"\n{about['kind']}: {about['ratings']} ratings of {about['captions']} captions; "
        f"{about['left_out']} captions that are references of their image were left out"
    )


def _statistics(judgements: Judgements, args: argparse.Namespace) -> list[Statistics]:
    """Each metric on each caption, in the order of `judgements.candidates`."""
    from groundling.errors import DataError
    from groundling.metrics.captions import score_captions

    names = metric_names(args.metrics)
    captions = {str(i): one.caption for i, one in enumerate(judgements.candidates)}
    references = {str(i): one.references for i, one in enumerate(judgements.candidates)}
    looked = [name for name in names if name.startswith("grounding")]
    plain = [name for name in names if name not in looked]
    if (plain or "grounding-ref" in names) and not all(references.values()):
        bare = next(one.image for one in judgements.candidates if not one.references)
        raise DataError(f"{args.file}: no references of {bare!r}: give --refs, or columns that begin with 'reference'")
    statistics = score_captions(captions, references, plain) if plain else []
    if looked:
        from groundling.evaluation import caption_score

        images = {str(i): one.image for i, one in enumerate(judgements.candidates)}
        options = {"model": args.model, "images": args.images, "regions": args.regions, "quiet": False}
        statistics += caption_score.scored(looked, captions, references, images, **options).values()
    return statistics


def _references(path: Path | None) -> dict[str, list[str]] | None:
    """The references of each image, by its name and by its number."""
    from groundling.metrics.caption_files import read_file_names, read_references

    if path is None:
        return None
    by_id, names = read_references(path), read_file_names(path)
    return by_id | {name: by_id[id] for id, name in names.items() if id in by_id}
