"""Caption images, each noun with its box."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundling.api import Manner, Pointer
    from groundling.regions.store import Store
    from groundling.types import Example, GroundedCaption

BATCH = 16  # pictures whose regions are made, then captioned together

DESCRIPTION = """\
Caption images, each noun with its box.

IMAGES are picture files, folders of pictures, or one data set that `groundling doctor` understands. Out comes one JSON
line per image: caption, tokens, characters of each token, links (token, box in xyxy pixels, score), looks (where the
attention of each word went). An id is a file's name without its ending, or its path where names repeat.

A picture that cannot be read is named and left out; the command then ends with code 1, or with 0 under --skip-bad."""

EPILOG = """\
examples:
  groundling caption photo.jpg --model runs/scenes --png pointed/
  groundling caption photo.jpg --model runs/scenes --sample --temperature 0.7 --seed 3
  groundling caption scenes --split val --regions scenes.regions --model runs/scenes --beam 3 --out val.jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("images", nargs="+", metavar="IMAGES", help="picture files, folders, or a data set")
    parser.add_argument("--model", required=True, help="folder that `groundling train --out` wrote")
    parser.add_argument("--regions", metavar="STORE", help="regions of the data set; made on the fly without it")
    parser.add_argument("--split", help="only this split of the data set")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument("--skip-bad", action="store_true", help="leave out what cannot be read, and end with code 0")
    group = parser.add_argument_group("how words are chosen")
    group.add_argument("--beam", type=int, metavar="N", help="width of the beam; 1 is greedy (default)")
    group.add_argument("--length-penalty", type=float, metavar="A", help="compare captions by log p / tokens^A (0)")
    group.add_argument("--no-repeat", type=int, metavar="N", help="say no N words twice in the same order (0: may)")
    group.add_argument("--min-length", type=int, metavar="N", help="say at least N words (0)")
    group.add_argument("--sample", action="store_true", help="draw words at random, as likely as the model finds them")
    group.add_argument("--temperature", type=float, metavar="T", help="with --sample: below 1 is bolder (1)")
    group.add_argument("--top-k", type=int, metavar="K", help="with --sample: among the K likeliest words (0: all)")
    group.add_argument("--top-p", type=float, metavar="P", help="with --sample: among the likeliest words up to P (1)")
    group.add_argument("--seed", type=int, metavar="S", help="with --sample: same seed, same words (0)")
    group = parser.add_argument_group("what is written")
    group.add_argument("--out", metavar="FILE", help="write JSON lines here instead of to the terminal")
    group.add_argument("--coco", metavar="FILE", help="also write COCO results JSON (image_id, caption)")
    group.add_argument("--submission", metavar="FILE", help="also write JSON for the official grounding evaluators")
    group.add_argument("--png", metavar="FOLDER", help="also write a picture with boxes for each image")


def run(args: argparse.Namespace) -> int:
    from groundling import api
    from groundling.commands.places import new_file, new_folder
    from groundling.progress import track

    manner = _manner(args)
    out, coco, submission = (new_file(name) if name else None for name in (args.out, args.coco, args.submission))
    pngs = new_folder(args.png) if args.png else None
    pointer = api.load(args.model, args.device)
    examples = _unique(_examples(args.images, args.split, args.skip_bad))
    captions = _captions(pointer, examples, args, manner)
    failed, kept = 0, []
    with ExitStack() as stack:
        lines = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
        for said in track(captions, "captions", len(examples), quiet=len(examples) == 1 or not out):
            if said is None or not (pngs is None or _png(pngs, said)):
                failed += 1
            if said is not None:
                print(json.dumps(said.to_dict()), file=lines, flush=not out)
                if coco or submission:
                    kept.append(said)
    if coco:
        coco.write_text(json.dumps(_coco(kept)), encoding="utf-8")
    if submission:
        submission.write_text(json.dumps(_submission(kept, pointer)), encoding="utf-8")
    if failed:
        print(f"groundling: {failed} of {len(examples)} pictures could not be read", file=sys.stderr)
    return 1 if failed and not args.skip_bad else 0


def _manner(args: argparse.Namespace) -> Manner:
    """How words are chosen; an option of the other way is refused."""
    from groundling.api import Drawn, Likeliest
    from groundling.errors import GroundlingError

    def given(*names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(args, name)) is not None}

    likeliest = given("beam", "length_penalty", "no_repeat", "min_length")
    drawn = given("temperature", "top_k", "top_p", "seed")
    if wrong := next(iter(likeliest if args.sample else drawn), None):
        cure = "does not go with --sample" if args.sample else "needs --sample"
        raise GroundlingError(f"--{wrong.replace('_', '-')} {cure}")
    return Drawn(**drawn) if args.sample else Likeliest(**likeliest)


# ---------------------------------------------------------------- what to caption


def _examples(names: Iterable[str], split: str | None, skip_bad: bool) -> Iterator[Example]:
    """The pictures named, those of folders, or the examples of a data set."""
    from groundling.data.dataset import load
    from groundling.data.pictures import only_pictures
    from groundling.errors import DataError
    from groundling.images import SUFFIXES
    from groundling.regions.extract import images_below
    from groundling.types import Example

    for path in map(Path, names):
        if not path.exists():
            raise DataError(f"{path} does not exist")
        pictures = path.is_dir() and any(file.suffix.lower() in SUFFIXES for file in path.iterdir())
        if path.is_file() and path.suffix.lower() in SUFFIXES:
            yield Example(path.stem, str(path), (0, 0))
        elif path.is_dir() and split is None and (pictures or only_pictures(path)):
            yield from (Example(job.id, str(job.path), (0, 0)) for job in images_below(path))
        else:
            yield from load(path, split, annotated=False, skip_bad=skip_bad)


def _unique(examples: Iterable[Example]) -> list[Example]:
    """Each with an id of its own: the path where the names of pictures repeat. What was named twice is refused."""
    from dataclasses import replace

    from groundling.errors import DataError

    examples = list(examples)
    times = Counter(example.id for example in examples)
    examples = [replace(x, id=Path(x.media or x.id).as_posix()) if times[x.id] > 1 else x for x in examples]
    seen: dict[str, Example] = {}
    for example in examples:
        if example.id in seen:
            raise DataError(f"{example.id} is named twice; name each picture and each data set once")
        seen[example.id] = example
    return examples


def _captions(
    pointer: Pointer, examples: Sequence[Example], args: argparse.Namespace, manner: Manner
) -> Iterator[GroundedCaption | None]:
    """What can be known to fail is told here, before the first caption; the rest is done as captions are asked for."""
    from groundling.errors import DataError
    from groundling.images import SUFFIXES
    from groundling.regions.store import Store

    bare = [x.id for x in examples if Path(x.media).suffix.lower() not in SUFFIXES]
    if bare and (args.png or not args.regions):
        cure = "leave out --png" if args.regions else "give their regions with --regions STORE"
        raise DataError(f"{len(bare)} of {len(examples)} images have no picture file, such as {bare[0]!r}: {cure}")
    if not args.regions:
        _ = pointer.source  # a missing extra, or regions that cannot be made here
        return _of_pictures(pointer, examples, manner)
    store = Store.open(args.regions)
    if missing := [x.id for x in examples if x.id not in store]:
        raise DataError(
            f"{args.regions} has no regions of {len(missing)} of {len(examples)} images, such as {missing[0]!r}: "
            "make them with `groundling regions extract`"
        )
    return _of_store(pointer, store, examples, manner)


def _of_store(
    pointer: Pointer, store: Store, examples: Sequence[Example], manner: Manner
) -> Iterator[GroundedCaption | None]:
    from dataclasses import replace

    captions = pointer.captions_of(store, [x.id for x in examples], manner)
    for said, example in zip(captions, examples, strict=True):
        yield replace(said, media=example.media)


def _of_pictures(pointer: Pointer, examples: Sequence[Example], manner: Manner) -> Iterator[GroundedCaption | None]:
    """One caption per example; None for each picture that cannot be read, which is named."""
    from groundling.errors import DataError
    from groundling.tensors import Regions

    for start in range(0, len(examples), BATCH):
        found = []
        for example in examples[start : start + BATCH]:
            try:
                found.append((example, pointer.regions(example.media)))
            except DataError as error:
                print(f"groundling: {error}", file=sys.stderr)
                yield None
        if found:
            seen, regions = zip(*found, strict=True)
            ids, media = [x.id for x in seen], [x.media for x in seen]
            yield from pointer.say(Regions.stack(regions), ids, media, manner)


# ---------------------------------------------------------------- what is written


def _coco(captions: Iterable[GroundedCaption]) -> list[dict[str, Any]]:
    from groundling.data.official import plain_id

    return [{"image_id": plain_id(said.id), "caption": said.text} for said in captions]


def _submission(captions: Sequence[GroundedCaption], pointer: Pointer) -> dict[str, Any]:
    """As the evaluator of images wants it, or that of videos, whose ids are those of segments."""
    from groundling.data.official import image_submission, video_submission

    write = video_submission if all("_segment_" in said.id for said in captions) else image_submission
    return write(captions, pointer.model.groundable.class_of)


def _png(folder: Path, said: GroundedCaption) -> bool:
    """Write the picture with its boxes; False, and the reason told, where it cannot be read."""
    from groundling import api
    from groundling.errors import DataError

    try:
        api.draw(said.media, said).save(folder / f"{said.id.replace('/', '_')}.png")
    except DataError as error:
        print(f"groundling: {error}", file=sys.stderr)
        return False
    return True
