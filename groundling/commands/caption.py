"""Caption images and videos, each noun with its box."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from groundling.commands import Renamed, add_engine, add_joints, engine_of, whole_number
from groundling.errors import printable

if TYPE_CHECKING:
    from groundling.commands.outputs import Unfinished
    from groundling.errors import DataError
    from groundling.inference import DecodingSettings, GroundedCaptioner
    from groundling.parallel import Engine
    from groundling.regions.store import Store
    from groundling.types import Example, GroundedCaption

    Maker = Callable[[Sequence[Example]], Iterator[GroundedCaption]]
    Captioned = tuple[list[GroundedCaption], list[tuple[str, DataError]]]  # and what could not be read

DESCRIPTION = """\
Caption images and videos, each noun with its box.

IMAGES are picture files, video files, folders of them, or one data set that `groundling doctor` understands. Without
--model, the captioner and the grounder that come with the package are used.

In a terminal each caption is shown with its nouns numbered. `score` says how sure the model is of the box. `evidence`
is the probability that the thing is in the image at all, by the grounder. Below 0.65 (without a grounder: if less than
a fifth of the captioner's attention was on the box) the evidence is weak: the word may be made up, and is shown with a
question mark or a dashed box.

A classifier of a thousand classes knows animals, dishes, buildings and vehicles that captioners call by another name.
Where it is sure, its noun replaces a noun of the same kind, as "squirrel" for "bird". `source` of such a noun in JSON
is "image classes", and its evidence is the probability of the class. --no-image-classes leaves all nouns to the
captioner.

With --json, and without it in a file or a pipe, the output is one JSON line per image: caption, tokens, characters of
each token, links (token, box in xyxy pixels, score, evidence, weak, source), and with --attention `attention`, the
regions that each word attended to. The id of an image is its file name without the ending, or its path where two
names are alike.

A video of several shots gets a caption for each shot (--whole-clip: one for all). `segment` in JSON has the seconds at
which the shot begins and ends, and the id ends with @ and the first of these. A shot is cut into --frames equal parts,
and the middle frame of each part is used; each link has the number of its frame, from 0.

Boxes are in pixels of the picture as viewers show it, turned as its EXIF says. If EXIF turns it, `stored_box` of a link
in JSON has the box in the pixels as the file stores them. A picture or video that cannot be read is named and left out;
the command then ends with code 1, or with 0 under --skip-bad.

The file of --out is written when all captions are there; an earlier one stays until then. Finished captions are kept in
FILE.part: if the command is stopped, run it again, and it continues."""

EPILOG = """\
examples:
  groundling caption photo.jpg
  groundling caption photos/ --html photos.html --png pointed/
  groundling caption photo.jpg --json | jq .caption
  groundling caption photos/ --plain | sort > captions.txt
  groundling caption photo.jpg --model runs/photos --grounder runs/grounder --png pointed/
  groundling caption clip.mp4 --frames 8 --png pointed/
  groundling caption photo.jpg --model runs/scenes --sample --temperature 0.7 --seed 3
  groundling caption scenes --split val --regions scenes.regions --model runs/scenes --beam 1 --out val.jsonl
  groundling caption /shared/photos --out captions.jsonl --engine ray --address auto --workers 64"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("images", nargs="+", metavar="IMAGES", help="picture or video files, folders, or a data set")
    parser.add_argument(
        "--model",
        default="",
        metavar="RUN",
        help="folder that `groundling train` or `adapt` wrote (default: the package's)",
    )
    parser.add_argument(
        "--grounder",
        default="",
        metavar="RUN",
        help="folder of a grounder, which helps to choose the boxes",
    )
    parser.add_argument(
        "--grounder-weight",
        type=float,
        metavar="W",
        help="how much the grounder counts against the captioner's own attention, from 0 to 1 (default 0.5)",
    )
    parser.add_argument("--trust", dest="grounder_weight", type=float, action=Renamed, now="--grounder-weight")
    parser.add_argument("--regions", metavar="STORE", help="region store of the data set (default: computed here)")
    parser.add_argument(
        "--frames", type=whole_number(1), metavar="N", help="how many frames of a shot are used (default 10)"
    )
    parser.add_argument(
        "--whole-clip", action="store_true", help="write one caption for a whole video, not one for each shot"
    )
    parser.add_argument("--split", help="only this split of the data set")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    parser.add_argument(
        "--runtime",
        choices=("auto", "onnx", "torch"),
        default="auto",
        help="what runs the networks (default auto: onnxruntime where it is installed and runs the model, else torch)",
    )
    parser.add_argument(
        "--no-image-classes",
        dest="image_classes",
        action="store_false",
        help="keep the captioner's nouns (default: a classifier that is sure of a better one of its kind replaces it)",
    )
    add_joints(parser)
    parser.add_argument("--skip-bad", action="store_true", help="leave out what cannot be read, and end with code 0")
    group = parser.add_argument_group("how words are chosen")
    group.add_argument("--beam", type=int, metavar="N", help="width of the beam (default 3); 1 is greedy, and quicker")
    group.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="compare the captions of a beam by log p / tokens^A: 0 prefers short ones (default 0.9)",
    )
    group.add_argument(
        "--no-repeat",
        type=int,
        metavar="N",
        help='no N words in a row occur twice, and no word twice in a row or around "and" (default 2; 0: no limit)',
    )
    group.add_argument(
        "--repeat-nouns",
        action="store_true",
        default=None,
        help='a caption may have a noun twice (default: only in compounds: "playing tennis on a tennis court")',
    )
    group.add_argument("--min-length", type=int, metavar="N", help="a caption has at least N words (default 0)")
    group.add_argument(
        "--evidence-weight",
        type=float,
        metavar="W",
        help="weight of the evidence of nouns when words are chosen: captions are compared by log p + W * sum of log "
        "evidence. Here evidence is the calibrated similarity alone; the evidence that is shown with a caption also "
        "weighs the image as a whole (default 0: the captioner alone chooses)",
    )
    group.add_argument("--sample", action="store_true", help="sample words at random by the model's probabilities")
    group.add_argument(
        "--temperature", type=float, metavar="T", help="with --sample: below 1 prefers likely words (default 1)"
    )
    group.add_argument(
        "--top-k", type=int, metavar="K", help="with --sample: among the K likeliest words (default 0: all)"
    )
    group.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="with --sample: among the likeliest words that together have probability P (default 1)",
    )
    group.add_argument(
        "--seed", type=int, metavar="S", help="with --sample: the same seed gives the same words (default 0)"
    )
    group = parser.add_argument_group("what is written")
    group.add_argument("--json", action="store_true", help="print JSON lines in a terminal too, as in a pipe")
    group.add_argument("--plain", action="store_true", help="print one line each: the file, a tab, the caption")
    group.add_argument("--attention", action="store_true", help="JSON also has the attention of each word")
    group.add_argument("--out", metavar="FILE", help="write JSON lines here and print nothing")
    group.add_argument("--html", metavar="FILE", help="also write an HTML page that shows all captions and boxes")
    group.add_argument("--coco", metavar="FILE", help="also write COCO results JSON (image_id, caption)")
    group.add_argument("--coco-boxes", metavar="FILE", help="also write the boxes as COCO detection JSON, with scores")
    group.add_argument("--submission", metavar="FILE", help="also write JSON for the official grounding evaluators")
    group.add_argument(
        "--png",
        metavar="FOLDER",
        help="also draw the boxes: FOLDER/ID.png for each image or clip; for one image also a file that ends with .png",
    )
    add_engine(parser)


def run(args: argparse.Namespace) -> int:
    from groundling.commands.outputs import file_name, new_file, new_folder, refuse_input
    from groundling.errors import GroundlingError
    from groundling.files import saved

    decoding, engine = _decoding(args), engine_of(args)
    out, html = (new_file(name) if name else None for name in (args.out, args.html))
    kinds = ("coco", "coco_boxes", "submission")
    files = {kind: new_file(name) for kind in kinds if (name := getattr(args, kind))}
    one_png = args.png and Path(args.png).suffix.lower() == ".png" and not Path(args.png).is_dir()
    pngs = (new_file if one_png else new_folder)(args.png) if args.png else None
    captioner = _captioner(args)
    captioner.check(decoding)
    examples = _unique(_examples(args.images, args.split, args.skip_bad))
    if not (args.whole_clip or args.regions):
        examples = [shot for example in examples for shot in _shots(example)]
    if not examples:
        raise GroundlingError(f"none of {', '.join(args.images)} can be read: nothing to caption")
    if there := [path for path in (out, html, *files.values()) if path and path.exists()]:
        refuse_input(there, _read(args.images, examples))
    if pngs:
        _check_png(pngs, bool(one_png), examples)
    unread: list[str] = []  # ids of what has no caption
    unseen: set[str] = set()  # ids of what has one, but no picture
    make = _maker(captioner, examples, decoding, engine, args, unread)
    kept: list[GroundedCaption] = []
    for caption in _all_captions(make, examples, out, args, lambda: _call(captioner, examples, decoding, args)):
        if pngs and not _png(pngs if one_png else pngs / file_name(caption.id, ".png"), caption):
            unseen.add(caption.id)
        if files or html:
            kept.append(caption)
    for kind, path in files.items():
        with saved(path) as file:
            file.write(json.dumps(_written(kind, kept, captioner)).encode())
    if html and kept:
        unseen |= _page(html, kept)
    if failed := len(unread) + len(unseen):
        print(f"groundling: {failed} of {len(examples)} files could not be read", file=sys.stderr)
    return 1 if failed and not args.skip_bad else 0


def _decoding(args: argparse.Namespace) -> DecodingSettings:
    """How words are chosen; an option of the other way is refused."""
    from groundling.errors import GroundlingError
    from groundling.inference import BeamSearch, Sampling

    def given(*names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(args, name)) is not None}

    search = given("beam", "length_penalty", "no_repeat", "min_length", "repeat_nouns")
    sampling = given("temperature", "top_k", "top_p", "seed")
    if wrong := next(iter(search if args.sample else sampling), None):
        cure = "does not go with --sample" if args.sample else "needs --sample"
        raise GroundlingError(f"--{wrong.replace('_', '-')} {cure}")
    both = given("evidence_weight")
    return Sampling(**sampling, **both) if args.sample else BeamSearch(**search, **both)


def _captioner(args: argparse.Namespace) -> GroundedCaptioner:
    from groundling.errors import GroundlingError
    from groundling.inference import GROUNDER_WEIGHT, load

    if args.grounder_weight is not None and args.model and not args.grounder:
        raise GroundlingError("--grounder-weight needs a grounder: name one with --grounder RUN")
    weight = GROUNDER_WEIGHT if args.grounder_weight is None else args.grounder_weight
    return load(
        args.model,
        args.device,
        grounder=args.grounder,
        grounder_weight=weight,
        runtime=args.runtime,
        image_classes=args.image_classes,
        joints=args.joints,
    )


# ---------------------------------------------------------------- what to caption


def _examples(names: Iterable[str], split: str | None, skip_bad: bool) -> Iterator[Example]:
    """The pictures named, those of folders, or the examples of a data set."""
    from groundling.data.pictures import only_pictures
    from groundling.errors import DataError
    from groundling.images import SUFFIXES, absent
    from groundling.regions.jobs import images_below
    from groundling.types import Example
    from groundling.video import SUFFIXES as VIDEOS

    known = SUFFIXES | VIDEOS
    for path in map(Path, names):
        if not path.exists():
            if not skip_bad:
                raise DataError(absent(path))
            print(printable(f"groundling: {absent(path)}"), file=sys.stderr)
            continue
        pictures = path.is_dir() and any(file.suffix.lower() in known for file in path.iterdir())
        if path.is_file() and path.suffix.lower() in known:
            yield Example(path.stem, str(path), (0, 0))
        elif path.is_dir() and split is None and (pictures or only_pictures(path)):
            yield from (Example(job.id, str(job.path), (0, 0)) for job in images_below(path))
        else:
            from groundling.data.dataset import load

            yield from load(path, split, annotated=False, skip_bad=skip_bad)


def _read(names: Iterable[str], examples: Sequence[Example]) -> Iterator[str | Path]:
    """The images, and the captions that are theirs. Where only images are read, captions that an earlier call wrote
    beside them may be written anew."""
    from groundling.data.checks import head
    from groundling.data.dataset import annotation_files

    yield from (example.media for example in examples if example.media)
    captioned = any(example.captions for example in examples)
    for file in (file for name in names for file in annotation_files(Path(name))):
        if captioned or '"links": [' not in head(file):
            yield file


def _shots(example: Example) -> list[Example]:
    """A video file as its shots, where it has several; anything else as it is. What cannot be read is told later."""
    from dataclasses import replace

    from groundling.errors import DataError
    from groundling.video import SUFFIXES, shots

    if example.segment or example.captions or Path(example.media).suffix.lower() not in SUFFIXES:
        return [example]
    try:
        found = shots(example.media)
    except DataError:
        return [example]
    if len(found) < 2:
        return [example]
    return [replace(example, id=f"{example.id}@{start:.1f}", segment=(start, end)) for start, end in found]


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


def _maker(
    captioner: GroundedCaptioner,
    examples: Sequence[Example],
    decoding: DecodingSettings,
    engine: Engine,
    args: argparse.Namespace,
    unread: list[str],
) -> Maker:
    """What captions some of the examples. Checks what can be checked before the first caption.

    Files that cannot be read are named when they come.
    """
    from groundling.errors import DataError, GroundlingError
    from groundling.images import SUFFIXES
    from groundling.inference.captioner import STORED_WINDOW, WINDOW
    from groundling.parallel import ALONE
    from groundling.video import is_clip

    window = STORED_WINDOW if args.regions else WINDOW
    if args.frames is not None and any(example.captions for example in examples):
        raise GroundlingError("--frames goes with video files; a data set decides by itself")
    bare = [x.id for x in examples if not (Path(x.media).suffix.lower() in SUFFIXES or is_clip(x.media))]
    drawn = next((name for name in ("--png", "--html") if getattr(args, name[2:])), None)
    if bare and (drawn or not args.regions):
        cure = f"leave out {drawn}" if args.regions else "give their regions with --regions STORE"
        raise DataError(f"{len(bare)} of {len(examples)} images have no picture file, such as {bare[0]!r}: {cure}")
    store = None
    if args.regions:
        from groundling.regions.store import Store

        store = Store.open(args.regions)
        store.require(x.id for x in examples)

    def on_error(id: str, error: DataError) -> None:
        print(printable(f"groundling: {error}"), file=sys.stderr)
        unread.append(id)

    def make(some: Sequence[Example]) -> Iterator[GroundedCaption]:
        return _captions(captioner, some, decoding, store, args, on_error) if engine == ALONE else shared(some)

    def shared(some: Sequence[Example]) -> Iterator[GroundedCaption]:
        windows = [some[start : start + window] for start in range(0, len(some), window)]
        for captions, problems in engine.map(partial(_worker, args, decoding), windows, lambda w: f"image {w[0].id!r}"):
            for id, error in problems:
                on_error(id, error)
            yield from captions

    return make


def _captions(
    captioner: GroundedCaptioner,
    some: Sequence[Example],
    decoding: DecodingSettings,
    store: Store | None,
    args: argparse.Namespace,
    on_error: Callable[[str, DataError], None],
) -> Iterator[GroundedCaption]:
    from groundling.video import FRAMES

    return captioner.caption(some, decoding, regions=store, frames=args.frames or FRAMES, on_error=on_error)


def _worker(args: argparse.Namespace, decoding: DecodingSettings) -> Callable[[Sequence[Example]], Captioned]:
    """In a worker: what captions images that belong together, with a captioner that is loaded once."""
    captioner, store = _captioner(args), None
    if args.regions:
        from groundling.regions.store import Store

        store = Store.open(args.regions)

    def caption(some: Sequence[Example]) -> Captioned:
        problems: list[tuple[str, DataError]] = []
        found = _captions(captioner, some, decoding, store, args, lambda id, error: problems.append((id, error)))
        return list(found), problems

    return caption


# ---------------------------------------------------------------- what is written


def _all_captions(
    make: Maker,
    examples: Sequence[Example],
    out: Path | None,
    args: argparse.Namespace,
    call: Callable[[], dict[str, Any]],
) -> Iterator[GroundedCaption]:
    """All captions, those of an earlier run that was stopped first. Each new one is printed or written as it comes."""
    from groundling.progress import track

    if out is not None and (out.is_file() or not out.exists()):
        yield from _kept(make, examples, out, args, call())
        return
    with out.open("w", encoding="utf-8") if out else nullcontext() as file:  # a device or a pipe
        tell = _teller(file, args)
        for caption in track(make(examples), "captions", len(examples), quiet=len(examples) == 1 or not out):
            tell(caption)
            yield caption


def _kept(
    make: Maker, examples: Sequence[Example], out: Path, args: argparse.Namespace, call: dict[str, Any]
) -> Iterator[GroundedCaption]:
    """All captions; their lines are kept from the first on, and are in `out` when all are there."""
    from groundling.commands.outputs import appending, unfinished
    from groundling.progress import track

    with unfinished(out, call) as lines:
        before, start = _before(lines, examples, args)
        yield from before
        made = {caption.id for caption in before}
        left = [example for example in examples[:start] if example.id not in made]  # could not be read then
        rest = chain(make(left), make(examples[start:]))
        with appending(lines.kept) as add:
            for caption in track(rest, "captions", len(examples) - len(before), quiet=len(examples) == 1):
                add(caption.to_dict())
                yield caption
        lines.finish(lambda row: _row(row, args.attention))


def _before(
    lines: Unfinished, examples: Sequence[Example], args: argparse.Namespace
) -> tuple[list[GroundedCaption], int]:
    """The captions of an earlier run, and at which example to go on: where a group that is captioned together begins.

    So the captions are the same as without the stop, sampled ones too.
    """
    from groundling.files import Location
    from groundling.inference.captioner import STORED_WINDOW, WINDOW
    from groundling.types import GroundedCaption

    rows, damaged = lines.rows(), Location(lines.kept)
    if not rows:
        return [], 0
    index = {example.id: i for i, example in enumerate(examples)}
    window = STORED_WINDOW if args.regions else WINDOW
    last = 1 + max(index.get(str(row.get("id")), 0) for row in rows)
    start = len(examples) if last == len(examples) else last // window * window
    complete = [row for row in rows if index.get(str(row.get("id")), start) < start]
    lines.keep(complete)
    print(f"groundling: {lines.path}: going on after {len(complete)} of {len(examples)} captions", file=sys.stderr)
    return [damaged.call(GroundedCaption.from_dict, row) for row in complete], start


def _call(
    captioner: GroundedCaptioner, examples: Sequence[Example], decoding: DecodingSettings, args: argparse.Namespace
) -> dict[str, Any]:
    """All that captions depend on."""
    from groundling import __version__

    return {
        "version": __version__,
        **captioner.signature,
        "grounder": args.grounder,
        "decoding": repr(decoding),
        "images": [[example.id, example.media, *(example.segment or ())] for example in examples],
        "regions": args.regions,
        "frames": args.frames,
    }


def _teller(file: TextIO | None, args: argparse.Namespace) -> Callable[[GroundedCaption], None]:
    """What tells a caption: JSON lines into a file or a pipe, or where they were asked for, else for a person."""
    if args.plain and not file:
        shown = printable if sys.stdout.isatty() else str  # other programs need names as they are
        return lambda caption: print(shown(_name(caption)), caption.text, sep="\t", flush=True)
    if file or args.json or not sys.stdout.isatty():
        return lambda caption: print(
            json.dumps(_row(caption.to_dict(), args.attention)), file=file or sys.stdout, flush=True
        )
    from rich.console import Console

    from groundling.report.terminal import readable

    console = Console(highlight=False, markup=False)
    return lambda caption: console.print(readable(caption))


def _name(caption: GroundedCaption) -> str:
    """The file; of a part of a video with its seconds, as addresses of media have them: clip.mp4#t=12.5,20.0."""
    when = "#t={:.1f},{:.1f}".format(*caption.segment) if caption.segment else ""
    return (caption.media or caption.id) + when


def _row(row: dict[str, Any], attention: bool) -> dict[str, Any]:
    """What one line holds. What was attended is most of it, and few ask for it."""
    from groundling.commands.outputs import add_stored_boxes

    add_stored_boxes(str(row.get("media", "")), row["links"])
    return row if attention else {key: value for key, value in row.items() if key != "attention"}


def _written(kind: str, captions: Sequence[GroundedCaption], captioner: GroundedCaptioner) -> Any:
    from groundling.report.coco import coco_boxes, coco_results

    if kind == "coco":
        return coco_results(captions)
    if kind == "coco_boxes":
        return coco_boxes(captions, captioner.groundable.class_of)
    return _submission(captions, captioner)


def _submission(captions: Sequence[GroundedCaption], captioner: GroundedCaptioner) -> dict[str, Any]:
    """As the evaluator of images wants it, or that of videos, whose ids are those of segments."""
    from groundling.data.evaluator_files import image_submission, video_submission

    write = video_submission if all("_segment_" in caption.id for caption in captions) else image_submission
    return write(captions, captioner.groundable.class_of)


def _page(path: Path, captions: Sequence[GroundedCaption]) -> set[str]:
    """Write the page; the ids of those whose pictures could not be read for it."""
    from groundling.commands.report import Evaluated, page

    systems, none = [{caption.id: caption for caption in captions}], Evaluated(per_image=({},))
    with redirect_stdout(sys.stderr):  # standard output has the captions, as JSON perhaps
        return page(path, ["captions"], systems, none, title=path.stem)


def _check_png(path: Path, one: bool, examples: Sequence[Example]) -> None:
    """That --png may be this file, or this folder: nothing that is read may be drawn over."""
    from groundling.commands.outputs import file_name, refuse_input
    from groundling.errors import GroundlingError

    if one and len(examples) > 1:
        folder = path.with_suffix("")
        raise GroundlingError(f"--png {path} is one picture, and {len(examples)} are drawn: name a folder, {folder}/")
    media = [example.media for example in examples]
    refuse_input([path] if one else [path / file_name(example.id, ".png") for example in examples], media)


def _png(path: Path, caption: GroundedCaption) -> bool:
    """Write the picture with its boxes; False, and the reason printed, if it cannot be read or its name is too long."""
    from groundling.errors import DataError
    from groundling.files import atomic
    from groundling.report.picture import draw

    try:
        with atomic(path) as file:
            draw(caption.media, caption).save(file, "PNG")
    except (DataError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
            raise
        print(printable(f"groundling: {error}"), file=sys.stderr)
        return False
    return True
