"""`groundling report`: one HTML page with captions and boxes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

    from groundling.metrics.evaluation import Evaluation
    from groundling.report import Film, Truth
    from groundling.types import Example, GroundedCaption

SHOWN = 20  # pictures left out that are named one by one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one HTML page that shows captions and boxes: hover over or tap a word, and its box is highlighted.\n"
        "Images can be searched and sorted, and several systems compared. The page needs no server and no network.\n"
        "A video plays under boxes that move, if its file is there and the browser can decode it; if not, the page\n"
        "shows the frames that it holds.\n\n"
        "With --data the page also shows the references and the true boxes, and gets a view of scores and errors.\n"
        "An image whose picture cannot be read is named and left out; the command then ends with code 1, or with 0\n"
        "under --skip-bad."
    )
    parser.epilog = (
        "examples:\n"
        "  groundling report val.jsonl -o val.html\n"
        "  groundling report plain.jsonl grounded.jsonl --data data/scenes --split val -o both.html"
    )
    parser.add_argument(
        "captions", nargs="+", metavar="CAPTIONS", help="JSON lines of `groundling caption`, one file for each system"
    )
    parser.add_argument("--data", help="data set with references and true boxes")
    parser.add_argument("--split", help="only this split of it")
    parser.add_argument("--skip-bad", action="store_true", help="leave out what cannot be read, and end with code 0")
    parser.add_argument(
        "-o", "--out", default="report.html", metavar="FILE", help="page to write (default %(default)s)"
    )
    parser.add_argument("--limit", type=int, help="show only the first N images", metavar="N")
    parser.add_argument("--side", type=int, default=400, help="longest side of the embedded pictures (default 400)")
    parser.add_argument("--title", help="heading of the page")
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="a line below the heading; @FILE reads it from a file"
    )
    parser.add_argument("--also", metavar="CAPTIONS", help="captions of other pictures, shown first and not scored")


def run(args: argparse.Namespace) -> int:
    from groundling.commands.outputs import new_file
    from groundling.metrics.predictions import read_captions

    out = new_file(args.out, *args.captions, args.also, args.data)
    systems = [{caption.id: caption for caption in read_captions(name)} for name in args.captions]
    names = [Path(name).stem for name in args.captions]
    evaluated = _evaluated(systems, args)
    if args.also:
        systems[0] = {caption.id: caption for caption in read_captions(args.also)} | systems[0]
    options = {"title": args.title, "note": _note(args.note), "side": args.side, "limit": args.limit}
    left_out = page(out, names, systems, evaluated, **options)
    return 1 if left_out and not args.skip_bad else 0


def _note(text: str) -> str:
    """The text, or what the file after @ holds."""
    from groundling.files import read_text

    return read_text(Path(text[1:])) if text.startswith("@") else text


def page(
    out: Path,
    names: Sequence[str],
    systems: Sequence[Mapping[str, GroundedCaption]],
    evaluated: Evaluated,
    *,
    title: str | None = None,
    note: str = "",
    side: int = 400,
    limit: int | None = None,
) -> set[str]:
    """Write the page of some systems, each id -> caption. The ids of those left out, for want of a picture."""
    from groundling.errors import DataError, printable
    from groundling.progress import track
    from groundling.report import Item, Truth, write

    order = list(dict.fromkeys(id for system in systems for id in system))[:limit]
    left_out: dict[str, str] = {}  # id -> why

    def item(id: str) -> Item | None:
        captions = tuple(system.get(id) for system in systems)
        example = evaluated.examples.get(id)
        try:
            pictures, film = _pictures(id, example, [one for one in captions if one])
        except DataError as error:
            left_out[id] = str(error)
            return None
        numbers = {
            (f"{name}: {key}" if len(names) > 1 else key): value
            for name, one, scores in zip(names, captions, evaluated.per_image, strict=True)
            if one is not None
            for key, value in {**scores.get(id, {}), **_own_numbers(one)}.items()
        }
        return Item(id, lambda: pictures, captions, _truth(example) if example else Truth(), numbers, film)

    items = filter(None, map(item, track(order, "pictures", len(order), quiet=len(order) < 50)))
    write(out, items, names, title=title or " and ".join(names), note=note, side=side, evaluation=evaluated.first)
    print(printable(str(out)))
    for problem in list(left_out.values())[:SHOWN]:
        print(f"left out: {printable(problem)}", file=sys.stderr)
    if left_out:
        print(f"{len(left_out)} of {len(order)} images left out: no picture", file=sys.stderr)
    return set(left_out)


def _pictures(
    id: str, example: Example | None, captions: Sequence[GroundedCaption]
) -> tuple[list[Image.Image], Film | None]:
    """The image, or the frames of the clip and its file, that the data set or else a caption names.

    DataError where they cannot be read.
    """
    from groundling.errors import DataError
    from groundling.images import open_image
    from groundling.report import Film
    from groundling.video import FRAMES, frames, is_clip

    known = [path for path in (example.media if example else "", *(one.media for one in captions)) if path]
    if not known:
        raise DataError(f"{id}: no picture is known; name the data set with --data")
    path = Path(next((path for path in known if Path(path).exists()), known[0]))
    if not is_clip(path):
        return [open_image(path)], None
    count = next((one.frames for one in captions if one.frames), FRAMES)
    segment = example.segment if example else next((one.segment for one in captions), None)
    return list(frames(path, count, segment)), Film(path, segment) if path.is_file() else None


@dataclass(frozen=True)
class Evaluated:
    """What the data set says of the captions; empty without one."""

    examples: dict[str, Example] = field(default_factory=dict)
    per_image: tuple[dict[str, dict[str, float]], ...] = ()  # system -> id -> numbers
    first: dict[str, Any] | None = None  # evaluation of the first system, as JSON

    @staticmethod
    def of(examples: Iterable[Example], evaluations: Sequence[Evaluation]) -> Evaluated:
        """What was found of each system."""
        per_image: list[dict[str, dict[str, float]]] = [{} for _ in evaluations]
        for numbers, evaluation in zip(per_image, evaluations, strict=True):
            for s in evaluation.statistics:
                if s.name == "CIDEr-D":
                    numbers |= {id: {s.name: value} for id, value in zip(s.ids, s.per_item().tolist(), strict=True)}
        return Evaluated({example.id: example for example in examples}, tuple(per_image), evaluations[0].to_dict())


def _evaluated(systems: Sequence[dict[str, GroundedCaption]], args: argparse.Namespace) -> Evaluated:
    if not args.data:
        return Evaluated(per_image=({},) * len(systems))
    from groundling.evaluation.evaluator import CaptionEvaluator

    pointing = any(caption.links for system in systems for caption in system.values())
    evaluator = CaptionEvaluator.of(args.data, args.split, links=pointing, skip_bad=args.skip_bad)
    return Evaluated.of(evaluator.examples, [evaluator(list(system.values())) for system in systems])


def _own_numbers(caption: GroundedCaption) -> dict[str, float]:
    """What a caption says of itself: how likely it is, and how sure its weakest link is."""
    weakest = {"weakest link": min(link.score for link in caption.links)} if caption.links else {}
    return {"log p": caption.logp, **weakest}


def _truth(example: Example) -> Truth:
    from groundling.report import AnnotatedPhrase, Truth

    phrases: dict[str, AnnotatedPhrase] = {}
    for phrase in example.gold:
        words = example.captions[phrase.caption].tokens[slice(*phrase.span)]
        if phrase.boxes:
            phrases.setdefault(
                phrase.entity or str(len(phrases)), AnnotatedPhrase(" ".join(words), phrase.boxes, phrase.frames)
            )
    return Truth(tuple(caption.text for caption in example.captions), tuple(phrases.values()))
