"""`groundling study`: ask people which of two systems has the better boxes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.errors import printable

if TYPE_CHECKING:
    from PIL import Image

    from groundling.papers.study import Sheet

DESCRIPTION = """\
Ask people which of two systems has the better boxes, and count their answers.

  groundling study A.jsonl B.jsonl --out study.html   a page for the raters, one file, without server or network
  groundling study --answers ann.json bob.json        shares of preference, and agreement of the raters

The page shows one word after the other, with the box of each system, on sides that are drawn at random for each image.
A rater chooses: A is better, B is better, about the same. The words are nouns that both captions of an image have and
ground; if both systems grounded the same sentence, all its words. --verbs adds verbs, whose box is the region that the
captioner attended to most. Each image is for two of the raters. Answers stay in the browser until the rater saves them
as a file; that file also says which system was A.

Shares of preference have 95 % intervals (bootstrap over images). Agreement is measured on the words that two raters
answered: the shares of same, opposite and other answers, and Cohen's kappa."""

EPILOG = """\
examples:
  groundling study plain.jsonl grounded.jsonl --data data/flickr30k --n 125 --raters 10 --out study.html
  groundling study a.jsonl b.jsonl --data data/flickr30k --verbs --n 125 --raters 10 --out study.html
  groundling study --answers answers/*.json --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("systems", nargs="*", metavar="CAPTIONS", help="JSON lines of `groundling caption`, two files")
    parser.add_argument(
        "--answers", nargs="+", metavar="FILE", help="files of answers to count, instead of making a page"
    )
    parser.add_argument("--json", action="store_true", help="with --answers: print JSON")
    parser.add_argument("--out", metavar="FILE", help="page to write (default study.html)")
    pictures = parser.add_mutually_exclusive_group()
    pictures.add_argument("--images", type=Path, metavar="FOLDER", help="folder of the pictures, named by their ids")
    pictures.add_argument("--data", type=Path, help="data set with the pictures (default: the paths in the captions)")
    parser.add_argument("--n", type=int, default=100, help="largest number of images (default 100)")
    parser.add_argument(
        "--verbs", action="store_true", help="ask about verbs too, as the paper does; needs captions with --attention"
    )
    parser.add_argument(
        "--raters", type=int, default=2, metavar="R", help="number of raters; each image is for two of them (2)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed that draws images and sides (default 0)")
    parser.add_argument("--side", type=int, default=640, help="longest side of the embedded pictures (default 640)")


def run(args: argparse.Namespace) -> None:
    from groundling.errors import GroundlingError

    if args.answers and args.systems:
        raise GroundlingError("name either two files of captions, to make a page, or --answers, to count answers")
    if args.answers:
        _count(args)
    elif len(args.systems) == 2:
        _page(args)
    else:
        raise GroundlingError("name two files of captions, such as: groundling study plain.jsonl grounded.jsonl")


def _page(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_file
    from groundling.errors import GroundlingError
    from groundling.metrics.predictions import read_captions
    from groundling.papers.study import compare, write
    from groundling.papers.study.verbs import link_verbs
    from groundling.progress import track

    if args.n < 1:
        raise GroundlingError(f"--n must be at least 1, got {args.n}")
    out = new_file(args.out or "study.html", *args.systems, args.data)
    each = [read_captions(name) for name in args.systems]
    first, second = ({caption.id: caption for caption in (link_verbs(some) if args.verbs else some)} for some in each)
    sheets = compare(first, second, args.n, args.seed, args.raters)
    media = _media(args)
    names = [Path(name).stem for name in args.systems]
    a, b = names if names[0] != names[1] else args.systems
    shown = track(sheets, "pictures", len(sheets), quiet=len(sheets) < 50)
    write(
        out,
        list(shown),
        lambda sheet: _pictures(sheet, media),
        (a, b),
        seed=args.seed,
        raters=args.raters,
        side=args.side,
    )
    words = sum(len(sheet.questions) for sheet in sheets)
    print(printable(f"{out}: {words} words in {len(sheets)} images, each for 2 of {args.raters} raters"))


def _media(args: argparse.Namespace) -> dict[str, str]:
    """id -> file, where a folder or a data set was named."""
    if args.images:
        from groundling.regions.jobs import images_below

        return {job.id: str(job.path) for job in images_below(args.images)}
    if args.data:
        from groundling.data.dataset import load

        return {example.id: example.media for example in load(args.data, annotated=False)}
    return {}


def _pictures(sheet: Sheet, media: dict[str, str]) -> Sequence[Image.Image]:
    from groundling.errors import DataError
    from groundling.images import open_image
    from groundling.video import FRAMES, frames, is_clip

    caption = sheet.captions[0]
    path = media.get(sheet.id) or caption.media
    if not path:
        raise DataError(
            f"{sheet.id}: no picture is known; name the pictures with --images, or the data set with --data"
        )
    return list(frames(path, caption.frames or FRAMES, caption.segment)) if is_clip(path) else [open_image(path)]


def _count(args: argparse.Namespace) -> None:
    from groundling.commands.score_table import ends, print_scores
    from groundling.metrics.evaluation import finite
    from groundling.metrics.significance import intervals
    from groundling.papers.study.answers import evaluate, read

    statistics = evaluate([read(path) for path in args.answers])
    bounds, scores = intervals(statistics, seed=args.seed), [one.score() for one in statistics]
    if args.json:
        print(json.dumps(finite({score.name: score.value for score in scores} | ends(bounds)), allow_nan=False))
    else:
        print_scores(scores, bounds)
