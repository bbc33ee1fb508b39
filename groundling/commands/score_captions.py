"""`groundling score captions`: BLEU, ROUGE-L, CIDEr, METEOR, SPICE of a results file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands.score_human import add_look
from groundling.commands.score_table import add_common, compared, ends, metric_names, print_scores, resampled

if TYPE_CHECKING:
    from groundling.metrics.statistics import Statistics

DESCRIPTION = """\
Score captions against references as the official COCO scripts do, without Java.

Both sides are tokenised as the Stanford PTBTokenizer 3.4.1 does, lower-cased, without punctuation. Values are on the
scale of the official scripts: BLEU, ROUGE-L, METEOR and SPICE from 0 to 1, CIDEr from 0 to 10. What coco-caption prints
as "CIDEr" is CIDEr-D here; CIDEr is the plain one. Images without a prediction are left out, and counted in the
signature; a prediction for an unknown image, or a second one for the same image, is an error.

SPICE alone needs Java, and files that no package carries: see docs/spice.md.

grounding compares the caption with the image and needs no references. It is from 0 to 1: how much of what the caption
names the grounder finds in the image, and how much of what is there the caption names. grounding-ref joins it with
METEOR. Both take the image from `file_name` of the references file, or from the id; several entries may share an image.
They need --images, or --regions."""

EPILOG = """\
examples:
  groundling score captions --pred results.json --refs captions_val2014.json
  groundling score captions --pred results.json --refs refs.json --metrics bleu,cider-d --json --per-image
  groundling score captions --pred results.json --refs refs.json --images photos --metrics grounding,grounding-ref
  groundling df captions_train2014.json -o train.df             # document frequencies, to score few images
  groundling score captions --pred one.json --refs refs.json --metrics cider-d --df train.df"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--pred", type=Path, required=True, metavar="RESULTS", help="COCO results, or JSON lines with id and caption"
    )
    parser.add_argument("--refs", type=Path, required=True, metavar="CAPTIONS", help="COCO captions file")
    parser.add_argument(
        "--metrics",
        default="bleu,rouge,cider,cider-d",
        metavar="NAMES",
        help="bleu, rouge, cider, cider-d, meteor, spice, grounding, grounding-ref, with commas (default: %(default)s)",
    )
    parser.add_argument("--df", type=Path, metavar="FILE", help="document frequencies for CIDEr (`groundling df`)")
    parser.add_argument("--java", action="store_true", help="METEOR by its own jar, as a cross-check; needs Java")
    parser.add_argument("--per-image", action="store_true", help="also print the scores of each image")
    add_look(parser)
    add_common(parser, "results")


def run(args: argparse.Namespace) -> None:
    from groundling.metrics.captions import score_captions

    names = metric_names(args.metrics)

    def scored(pred: Path) -> list[Statistics]:
        plain = [name for name in names if not name.startswith("grounding")]
        results = score_captions(pred, args.refs, plain, args.df, args.java) if plain else []
        return results + (_looked(pred, names, args) if len(plain) < len(names) else [])

    results = scored(args.pred)
    intervals = resampled(results, args.bootstrap)
    tests = compared(results, scored(args.baseline) if args.baseline else None, args.bootstrap)
    if args.json:
        print(json.dumps(_as_json(results, args.per_image) | ends(intervals, tests)))
        return
    print_scores([statistics.score() for statistics in results], intervals, tests)
    if args.per_image:
        _print_images(results)


def _looked(pred: Path, names: list[str], args: argparse.Namespace) -> list[Statistics]:
    """grounding and grounding-ref: the image of a caption is the file that the references name, else its id."""
    from groundling.errors import DataError
    from groundling.evaluation import caption_score
    from groundling.metrics.caption_files import read_file_names, read_predictions, read_references

    wanted = [name for name in names if name.startswith("grounding")]
    if unknown := set(wanted) - {caption_score.GROUNDING, caption_score.WITH_REFERENCES}:
        raise DataError(f"unknown metric {min(unknown)!r}; there are also grounding and grounding-ref")
    captions, files = read_predictions(pred), read_file_names(args.refs)
    images = {id: files.get(id, id) for id in captions}
    options = {"model": args.model, "images": args.images, "regions": args.regions, "quiet": args.json}
    return list(caption_score.scored(wanted, captions, read_references(args.refs), images, **options).values())


def _as_json(results: list[Statistics], per_image: bool) -> dict[str, object]:
    scores = [statistics.score() for statistics in results]
    images = {s.name: dict(zip(s.ids, s.per_item().tolist(), strict=True)) for s in results} if per_image else {}
    rows = [{"name": s.name, "value": s.value, "n": s.n, "signature": s.signature} for s in scores]
    return {"scores": rows, "per_image": images}


def _print_images(statistics: list[Statistics]) -> None:
    print()
    width = max(5, *(len(image) for image in statistics[0].ids))
    print(f"{'image':{width}}", *(f"{s.name:>8}" for s in statistics))
    for row in zip(statistics[0].ids, *(s.per_item() for s in statistics), strict=True):
        print(f"{row[0]:{width}}", *(f"{value:8.4f}" for value in row[1:]))
