"""Caption images, each noun with its box."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundling.api import Pointer
    from groundling.types import Example, GroundedCaption

PICTURES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Caption images, each noun with its box.\n\n"
        "IMAGES are picture files, folders of pictures, or one data set that `groundling doctor` understands.\n"
        "Out comes one JSON line per image: caption, tokens, characters of each token, links (token, box in xyxy\n"
        "pixels, score), looks (where the attention of each word went)."
    )
    parser.epilog = (
        "examples:\n"
        "  groundling caption photo.jpg --model runs/scenes --png pointed/\n"
        "  groundling caption data/scenes --split val --regions data/scenes.regions --model runs/scenes --out val.jsonl"
    )
    parser.add_argument("images", nargs="+", metavar="IMAGES", help="picture files, folders, or a data set")
    parser.add_argument("--model", required=True, help="folder that `groundling train --out` wrote")
    parser.add_argument("--regions", metavar="STORE", help="regions of the data set; made on the fly without it")
    parser.add_argument("--split", help="only this split of the data set")
    parser.add_argument("--beam", type=int, default=1, help="width of the beam; 1 is greedy (default)")
    parser.add_argument("--out", metavar="FILE", help="write JSON lines here instead of to the terminal")
    parser.add_argument("--coco", metavar="FILE", help="also write COCO results JSON (image_id, caption)")
    parser.add_argument("--png", metavar="FOLDER", help="also write a picture with boxes for each image")


def run(args: argparse.Namespace) -> int:
    from groundling import api
    from groundling.errors import GroundlingError

    if args.beam < 1:
        raise GroundlingError(f"--beam must be 1 or more, got {args.beam}")
    pointer = api.load(args.model)
    examples = list(_examples(args.images, args.split))
    if not examples:
        raise GroundlingError(f"no picture in {', '.join(args.images)}: looked for {', '.join(sorted(PICTURES))}")
    failed = 0
    with ExitStack() as stack:
        out = stack.enter_context(open(args.out, "w", encoding="utf-8")) if args.out else sys.stdout
        coco = []
        for said in _captions(pointer, examples, args):
            if said is None:
                failed += 1
                continue
            print(json.dumps(said.to_dict()), file=out, flush=not args.out)
            coco.append({"image_id": int(said.id) if said.id.isdecimal() else said.id, "caption": said.text})
            if args.png:
                _png(Path(args.png), said)
    if args.coco:
        Path(args.coco).write_text(json.dumps(coco), encoding="utf-8")
    return 1 if failed else 0


def _examples(paths: Iterable[str], split: str | None) -> Iterator[Example]:
    """What to caption: the pictures named, those of folders, or the examples of a data set."""
    from groundling.errors import DataError
    from groundling.types import Example

    for name in paths:
        path = Path(name)
        if path.is_file() and path.suffix.lower() in PICTURES:
            yield Example(path.stem, str(path), (0, 0))
        elif not path.exists():
            raise DataError(f"{path} does not exist")
        elif pictures := _pictures(path) if path.is_dir() and split is None else []:
            yield from (Example(p.stem, str(p), (0, 0)) for p in pictures)
        else:
            from groundling.data.dataset import load

            yield from load(path, split, annotated=False)


def _pictures(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in PICTURES)


def _captions(pointer: Pointer, examples: list[Example], args: argparse.Namespace) -> Iterator[GroundedCaption | None]:
    """One caption per example, in order; None for a picture that cannot be read, which is named."""
    from dataclasses import replace

    from groundling.errors import DataError
    from groundling.progress import track

    quiet = len(examples) == 1 or not args.out
    if args.regions:
        from groundling.regions.store import Store

        ids = [x.id for x in examples]
        captions = pointer.captions_of(Store.open(args.regions), ids, beam=args.beam)
        pairs = zip(captions, examples, strict=True)
        for said, example in track(pairs, "captions", len(ids), quiet=quiet):
            yield replace(said, media=example.media)
        return
    for example in track(examples, "captions", len(examples), quiet=quiet):
        try:
            yield replace(pointer.caption(example.media, beam=args.beam), id=example.id)
        except DataError as error:
            print(f"groundling: {error}", file=sys.stderr)
            yield None


def _png(folder: Path, said: GroundedCaption) -> None:
    from groundling import api

    folder.mkdir(parents=True, exist_ok=True)
    api.draw(said.media, said).save(folder / f"{said.id.replace('/', '_')}.png")
