"""`groundling ground`: the phrases of a sentence, each with its box."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import add_engine, add_joints, engine_of
from groundling.commands.score_table import add_bootstrap, add_iou

if TYPE_CHECKING:
    from PIL import Image

    from groundling.inference.grounder import PhraseGrounder
    from groundling.inference.phrases import GroundedPhrase
    from groundling.tensors import Regions

DESCRIPTION = """\
Find the phrases of a sentence in an image, each with its box. Without --model, the grounder of the package is used.

The phrases are the noun phrases of SENTENCE, or those named with --phrase. Colours help to choose among several
things of one kind: the colours of the phrase, and of what it wears or holds ("a man in a red shirt"). `score` says
how sure the model is of the box. `evidence`, if the model was calibrated, is the probability that the phrase is in
the image at all. Below 0.5 a phrase is "not found"; one whose noun the model never saw is "unknown". Evidence was
fitted on phrases of which half were in the image; in the other half the noun was replaced by one of the same kind.
Boxes are in pixels of the picture as viewers show it; if EXIF turns it, `stored_box` in JSON has the box in the
pixels as the file stores them.

With --data, the command grounds all annotated phrases of a data set and scores them: accuracy (recall@1), recall@5 and
10, pointing game, and the upper bound of the regions, over all phrases and by phrase type. If a phrase has several true
boxes, `any` accepts each of them, `union` only the box around them all. The type "one of several" holds phrases whose
noun fits several things in the image.

With --data and --calibrate, it also fits `evidence` on the captions of one half of the images, tests it on the other
half and stores it with the model; this needs no boxes. Three options add to the fit:
  --captions        the evidence that `audit` and `caption` give to nouns of captions, as captioners are right with
                    frequent nouns more often than with rare ones
  --learn-from      which nouns the image vector predicts, learned from the captions of a split, as train
  --contrast-from   what tells nouns of one class apart (a man, a woman), learned from captioned photos of any data set;
                    captions of photos like yours help most

With --cost, it prints floating point operations and milliseconds per image."""

EPILOG = """\
examples:
  groundling ground photo.jpg "a man in a red shirt holding a guitar" --png pointed.png
  groundling ground clip.mp4 "a dog catches a ball" --png frames.png
  groundling ground photo.jpg --phrase "red shirt" --phrase "guitar" --json
  groundling ground photo.jpg "a dog on the grass" --model runs/grounder --heatmap heat/
  groundling ground --data flickr30k --regions flickr30k.regions --split val --model runs/grounder --json
  groundling ground --data flickr30k --regions flickr30k.regions --split val --model runs/grounder --calibrate
  groundling ground --data coco --regions coco.regions --split val --model runs/grounder --calibrate --captions a.jsonl
  groundling ground photo.jpg --cost"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "image", nargs="?", metavar="IMAGE", help="a picture file, or a video, of which ten frames are used"
    )
    parser.add_argument(
        "sentence", nargs="?", default="", metavar="SENTENCE", help="a sentence; its noun phrases are found"
    )
    parser.add_argument(
        "--model",
        default="",
        metavar="RUN",
        help="folder that `groundling train two_branch` or `adapt` wrote (default: the package's)",
    )
    parser.add_argument(
        "--phrase", action="append", default=[], metavar="TEXT", help="a phrase to find; may be repeated"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    add_joints(parser)
    parser.add_argument("--png", metavar="FILE", help="also write the picture with its boxes")
    parser.add_argument("--heatmap", metavar="FOLDER", help="also write a heat map for each phrase")
    parser.add_argument("--coco-boxes", metavar="FILE", help="also write the boxes as COCO detection JSON, with scores")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--cost", action="store_true", help="print operations and time per image instead of phrases")
    group = parser.add_argument_group("phrases of a data set")
    group.add_argument("--data", metavar="DATA", help="a data set with boxes of phrases")
    group.add_argument("--regions", metavar="STORE", help="its region store")
    group.add_argument("--split", default="val", help="split to score (default val)")
    group.add_argument(
        "--argmax",
        action="store_true",
        help="choose the region with the highest similarity, as the paper does, not the most probable box, and by "
        "words alone, not by colours or joints",
    )
    group.add_argument("--calibrate", action="store_true", help="fit the evidence and store it in RUN")
    group.add_argument(
        "--captions",
        nargs="+",
        default=[],
        metavar="FILE",
        help="with --calibrate: captions that captioners wrote, to fit the evidence of their nouns",
    )
    group.add_argument(
        "--learn-from",
        default="",
        metavar="SPLIT",
        help="with --calibrate: also learn to predict nouns from the image vector, from the captions of this split",
    )
    group.add_argument(
        "--contrast-from",
        nargs=2,
        action="append",
        default=[],
        metavar=("DATA", "STORE"),
        help="with --calibrate: learn from the captions of the split train of DATA, and its regions, what tells a noun "
        "from others of its class; once or several times",
    )
    add_iou(group, "overlap from which a box is right (default 0.5)")  # type: ignore[arg-type]
    add_bootstrap(group)  # type: ignore[arg-type]
    add_engine(parser, what="with --data: processes")


def run(args: argparse.Namespace) -> None:
    from groundling.errors import GroundlingError
    from groundling.parallel import ALONE

    if bool(args.data) == bool(args.image):
        raise GroundlingError("name an IMAGE and a SENTENCE, or a data set with --data")
    if args.calibrate and not (args.data and args.model):
        raise GroundlingError("--calibrate is kept with the model: name both with --data DATA and --model RUN")
    if args.captions and not args.calibrate:
        raise GroundlingError("--captions are captions to fit on: add --calibrate")
    if args.contrast_from and not args.calibrate:
        raise GroundlingError("--contrast-from is part of fitting the evidence: add --calibrate")
    if args.learn_from and not args.calibrate:
        raise GroundlingError("--learn-from is part of fitting the evidence: add --calibrate")
    if not (args.data or engine_of(args) == ALONE):
        raise GroundlingError("one image is no work for several: --workers and --engine ray go with --data")
    if args.data:
        from groundling.commands import ground_data

        ground_data.run(args)
    elif args.cost:
        from groundling.commands import ground_cost

        ground_cost.run(args)
    else:
        _image_or_clip(args)


def _image_or_clip(args: argparse.Namespace) -> None:
    from groundling.commands import ground_clip
    from groundling.errors import GroundlingError
    from groundling.video import is_clip

    if not (args.sentence or args.phrase):
        raise GroundlingError("name what to find: a SENTENCE, or --phrase")
    (ground_clip.run if is_clip(args.image) else _image)(args)


def _image(args: argparse.Namespace) -> None:
    from groundling import inference
    from groundling.commands.outputs import add_stored_boxes, new_file, new_folder, refuse_input
    from groundling.inference.phrases import as_caption, in_sentence
    from groundling.report.picture import draw

    png, coco = (new_file(name) if name else None for name in (args.png, args.coco_boxes))
    refuse_input(filter(None, (png, coco)), [args.image])
    folder = new_folder(args.heatmap) if args.heatmap else None
    model = inference.load_grounder(args.model, args.device, joints=args.joints)
    regions = model.regions(args.image)
    phrases = model.ground_regions(regions, args.sentence, args.phrase)
    if args.json:
        rows = [phrase.to_dict() for phrase in phrases]
        add_stored_boxes(args.image, rows)
        print(json.dumps({"image": args.image, "sentence": args.sentence, "phrases": rows}))
    else:
        _print(phrases)
    if png:
        shown = as_caption(phrases) if args.phrase else in_sentence(args.sentence, phrases)
        save_picture(draw(args.image, shown), png)
    if coco:
        _coco(coco, args.image, regions, phrases)
    if folder:
        _heat(folder, args.image, model, regions, phrases)


def _print(phrases: Sequence[GroundedPhrase]) -> None:
    from rich.table import Table

    from groundling.commands.score_table import show

    table = Table("phrase", box=None, pad_edge=False)
    for name in ("box (x1 y1 x2 y2)", "score", "evidence", ""):
        table.add_column(name, justify="right")
    for phrase in phrases:
        box = " ".join(f"{x:.0f}" for x in phrase.box) if phrase.found else phrase.result
        evidence = "" if phrase.evidence is None else f"{phrase.evidence:.2f}"
        note = f"never seen: {', '.join(phrase.unknown)}" if phrase.unknown else ""
        table.add_row(phrase.phrase, box, f"{phrase.score:.2f}", evidence, note)
    show(table)


def _coco(path: Path, image: str, regions: Regions, phrases: Sequence[GroundedPhrase]) -> None:
    from groundling.files import save_text
    from groundling.inference.phrases import as_caption
    from groundling.report.coco import coco_boxes

    width, height = (round(side) for side in regions.size[0].tolist())
    save_text(path, json.dumps(coco_boxes([as_caption(phrases, Path(image).stem, image, (width, height))])))


def _heat(folder: Path, image: str, model: PhraseGrounder, regions: Regions, phrases: Sequence[GroundedPhrase]) -> None:
    from groundling.images import open_image
    from groundling.report.heatmap import heat, paint
    from groundling.text import words

    picture = open_image(image)
    ranking = model.rank(regions, [words.caption(phrase.phrase).tokens for phrase in phrases])
    seen = regions.first(ranking.similarity.shape[1])
    for i, (phrase, scores) in enumerate(zip(phrases, ranking.similarity, strict=True), start=1):
        name = "-".join(words.caption(phrase.phrase).tokens)
        save_picture(paint(picture, heat(seen, scores, picture.size)), folder / f"{i}-{name[:60]}.png")


def save_picture(picture: Image.Image, path: Path) -> None:
    """In one step, in the format that the ending of its name says."""
    from PIL import Image

    from groundling.files import saved

    with saved(path) as file:
        picture.save(file, Image.registered_extensions().get(path.suffix.lower(), "PNG"))
