"""`groundling regions`: make, import, describe and verify region stores, and which phrases their classes name."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands import add_engine, engine_of
from groundling.commands import regions_classes as classes
from groundling.commands import regions_studies as studies
from groundling.errors import DataError, GroundlingError, printable
from groundling.parallel import AVAILABLE_CORES
from groundling.regions import sources

if TYPE_CHECKING:
    from groundling.regions.jobs import Job

SHOWN = 20  # problems that are listed one by one

DESCRIPTION = """\
Make, import, describe and verify region stores.

A region store is a folder that holds, for every image, candidate boxes and their features. Make one from images with
`extract`, or from features that others extracted with `import`. If either is stopped, the same command continues where
it stopped. A store that is not finished cannot be read by accident."""

EPILOG = """\
examples:
  groundling regions extract photos/ --source photos --out photos.regions
  groundling regions extract scenes/ --source scenes --out scenes.regions --workers 2
  groundling regions import trainval_36.tsv --name butd36 --out coco.regions
  groundling regions info coco.regions
  groundling regions check coco.regions"""

EXTRACT = """\
Find regions in images and write them to a store.

IMAGES is a data set that groundling reads (`groundling doctor IMAGES` checks it), or a folder of image and video files.
In a folder the id of an image is its file name without the ending, or its path where two names are alike. A video, or a
segment in a data set of videos, is cut into ten equal parts, and the middle frame of each is used; every region has the
number of its frame. The same images give the same bytes, whatever --workers is. An image that cannot be read is named
and left out; the command then ends with code 1, or with 0 under --skip-bad, which also leaves out items of the data set
that break its format. If the command is stopped, the same command continues it.

examples:
  groundling regions extract photos/ --source photos --out photos.regions
  groundling regions extract scenes --source scenes --set count=100 --out scenes.regions
  groundling regions extract flickr30k --source photos --split val --out val.regions --workers 4"""

IMPORT = """\
Import features that others extracted into a store.

Formats, recognised by the files unless --format is given:
  tsv     bottom-up attention, one image per line, base64: 6 columns; the 10 columns of LXMERT; or as line 1 names them
  arrays  a folder of ID.npz with features and boxes inside; NAME_att beside NAME_box (and NAME_fc) of
          self-critical.pytorch; features/ID.npy beside boxes/ID.npy
  hdf5    a group per image; ID_features and ID_boxes, ...; or tables over all images with their ids
  gvd     Grounded Video Description: dic_*.json, the .h5 file of detections, a folder of ID.npy
Boxes are left, top, right, bottom in pixels, or in fractions of the image when none exceeds 1. Give sources that were
extracted in the same way the same --name: a model accepts the regions of the name it was trained on. Of a video, the
first region of every frame comes first, then the second of each. `--sure 0.2 --per-frame 100` are the regions that the
authors of Grounded Video Description and of cyclical training use.

Captioners that attend to a feature map of the image beside its regions find it in the store, with a vector of the whole
image. Import them together with the regions. In ID.npz and HDF5 they are arrays called conv (or grid) and fc (or
global), else files ID.npy in folders called conv and fc, or NAME_conv and NAME_fc. For gvd they are files beside:
ID_conv.npy and ID_fc.npy of an image; ID_resnet.npy and ID_bn.npy of a segment, or VIDEO_resnet.npy and VIDEO_bn.npy of
its whole video, with anet_entities_cleaned_class_thresh50_trainval.json, which tells when the segment is. A map is
(height, width, size) or (cells, size). `groundling regions info` shows whether a store has them.

examples:
  groundling regions import trainval_36.tsv --name butd36 --out coco.regions
  groundling regions import cocobu_att --name butd36 --out coco.regions --images val2014/"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    verb = _verb(verbs, "extract", "find regions in images", EXTRACT)
    verb.add_argument("images", type=Path, metavar="IMAGES", help="a data set, or a folder of image and video files")
    verb.add_argument(
        "--source",
        required=True,
        help=f"what finds the regions; photos suits most photographs: {', '.join(sources.names())} (docs/regions.md)",
    )
    verb.add_argument("--out", required=True, type=Path, metavar="STORE", help="folder to write")
    verb.add_argument("--split", help="only this split of the data set")
    verb.add_argument("--frames", type=_positive, metavar="N", help="frames of each video of a folder (default 10)")
    verb.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the source; may be repeated"
    )
    verb.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out bad items of the data set; end with code 0 even if images were left out",
    )
    add_engine(verb, workers=AVAILABLE_CORES)

    verb = _verb(verbs, "import", "read features that others extracted", IMPORT)
    verb.add_argument("sources", nargs="+", type=Path, metavar="SOURCE", help="files or folders of features")
    verb.add_argument("--out", required=True, type=Path, metavar="STORE", help="folder to write")
    verb.add_argument("--format", default="auto", help="auto, tsv, arrays, hdf5 or gvd (default: auto)")
    verb.add_argument("--name", help="name of the regions (default: that of the first source)")
    verb.add_argument("--labels", type=Path, metavar="FILE", help="names of the detector's classes, one per line")
    verb.add_argument("--images", type=Path, metavar="FOLDER", help="look up image sizes here where they are missing")
    verb.add_argument("--size", type=_size, metavar="WxH", help="size of every image whose size is missing")
    verb.add_argument(
        "--sure",
        type=_share,
        default=0.0,
        metavar="P",
        help="leave out regions whose best class has a score of P or less",
    )
    verb.add_argument(
        "--per-frame", type=_positive, default=0, metavar="N", help="at most N regions of an image, or of each frame"
    )
    verb.add_argument("--skip-bad", action="store_true", help="leave out what cannot be read instead of stopping")

    studies.add_truth(
        _verb(verbs, "truth", "make regions of the boxes that people drew, as a perfect detector would", studies.TRUTH)
    )
    studies.add_biased(
        _verb(verbs, "biased", "relabel regions by a classifier that knows only annotated words", studies.BIASED)
    )

    classes.add_arguments(
        _verb(verbs, "classes", "count the phrases of a data set that a detector has a class for", classes.DESCRIPTION)
    )

    verb = _verb(verbs, "info", "show what a store holds", "Show what a store holds and how it was made.")
    verb.add_argument("store", type=Path, metavar="STORE", help="folder of the store")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of a table")

    verb = _verb(
        verbs,
        "check",
        "verify a store",
        "Read all of a store and compare its checksums. The code is 1 if anything is damaged.",
    )
    verb.add_argument("store", type=Path, metavar="STORE", help="folder of the store")


def run(args: argparse.Namespace) -> int:
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "extract": _extract,
        "import": _import,
        "truth": studies.run_truth,
        "biased": studies.run_biased,
        "classes": classes.run,
        "info": _info,
        "check": _check,
    }
    return verbs[args.verb](args)


# ---------------------------------------------------------------- verbs


def _extract(args: argparse.Namespace) -> int:
    from groundling.progress import track
    from groundling.regions.extract import extract
    from groundling.regions.sources import check_name

    check_name(args.source)
    jobs = _jobs(args.images, args.split, args.frames, args.skip_bad)
    parameters = dict(_parameter(text) for text in args.set)
    added, problems = 0, []
    try:
        with closing(extract(jobs, args.source, parameters, args.out, engine_of(args))) as steps:
            for step in track(steps, f"regions of {args.images}", len(jobs)):
                added += step.added
                if step.problem is not None:
                    problems.append(f"{step.id}: {step.problem}")
    except KeyboardInterrupt:
        _print(f"stopped. {args.out} keeps the {added} images of this run; the same command continues from there.")
        raise
    print(printable(f"{args.out}: {len(jobs) - len(problems)} images, {added} of them new"))
    _list(problems, "left out")
    return 1 if problems and not args.skip_bad else 0


def _import(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from groundling.regions import importers

    name = args.name or args.sources[0].name.split(".")[0]
    labels = args.labels.read_text("utf-8").splitlines() if args.labels else ()
    size_of = _sizes(args.images, args.size)
    added, there, problems = 0, 0, []
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            for path in args.sources:
                bar = progress.add_task(str(path), total=1.0)
                source = importers.entries(path, args.format)
                steps = importers.copy(
                    source,
                    args.out,
                    name,
                    labels=labels,
                    size_of=size_of,
                    skip_bad=args.skip_bad,
                    sure=args.sure,
                    per_frame=args.per_frame,
                )
                with closing(steps):
                    for step in steps:
                        progress.update(bar, completed=step.share)
                        added += step.added
                        there += not step.added and step.problem is None
                        if step.problem is not None:
                            problems.append(step.problem)
    except KeyboardInterrupt:
        _print(f"stopped. {args.out} keeps the {added} images of this run; the same command continues from there.")
        raise
    print(printable(f"{args.out}: {added} images added as {name!r}; {there} were there before or came twice"))
    _list(problems, "left out")
    return 0


def _info(args: argparse.Namespace) -> int:
    from groundling.regions.fingerprints import to_json
    from groundling.regions.store import Store

    store = Store.open(args.store)
    about: dict[str, Any] = {
        "images": len(store),
        "regions": store.regions,
        "regions per image": round(store.regions / max(len(store), 1), 1),
        "bytes": sum(file.stat().st_size for file in args.store.iterdir()),
        "labels per region": store.layout.labels,
        "image vector": store.layout.whole,
        "grid": list(store.layout.grid),
        "fingerprint": to_json(store.fingerprint),
        "first ids": store.ids[:5],
    }
    if args.json:
        print(json.dumps(about, indent=2, ensure_ascii=False))
        return 0
    made = about.pop("fingerprint")
    made["labels"] = f"{len(made['labels'])} classes"
    for key, value in {**about, **{f"made by: {key}": value for key, value in made.items()}}.items():
        print(f"{key:24} {value:,}" if isinstance(value, int) else f"{key:24} {value}")
    return 0


def _check(args: argparse.Namespace) -> int:
    from groundling.progress import track
    from groundling.regions.store import Store

    store = Store.open(args.store)
    problems = [problem for _, problem in track(store.check(), f"checking {args.store}", len(store)) if problem]
    print(f"{args.store}: {len(store)} images, {len(problems)} damaged")
    for problem in problems:
        _print(problem)
    return 1 if problems else 0


# ---------------------------------------------------------------- arguments


def _jobs(path: Path, split: str | None, frames: int | None, skip_bad: bool) -> list[Job]:
    """The images and clips of a data set, or those of a folder that holds nothing else."""
    from groundling.data.pictures import only_pictures
    from groundling.regions.jobs import Job, images_below
    from groundling.video import FRAMES

    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.is_dir() and only_pictures(path):
        if split is not None:
            raise GroundlingError(f"{path} is a folder of images without annotations: it has no split {split!r}")
        return images_below(path, frames or FRAMES)
    from groundling.data.dataset import load

    if frames is not None:
        raise GroundlingError(f"--frames goes with a folder of videos; {path} is a data set, which decides by itself")

    examples = load(path, split, annotated=False, skip_bad=skip_bad)
    missing = [example.id for example in examples if not example.media]
    if missing:
        raise DataError(f"{path}: {len(missing)} examples have no image file, such as {missing[0]!r}")
    return [Job(example.id, Path(example.media), segment=example.segment) for example in examples]


def _sizes(folder: Path | None, size: tuple[float, float] | None) -> Callable[[str], tuple[float, float] | None]:
    """How to find the size of an image by its id: by its file, whose name is the id or ends with its number."""
    if folder is None:
        return lambda id: size
    from groundling.images import image_size
    from groundling.regions.jobs import images_below

    files = {job.path.stem: job.path for job in images_below(folder)}
    numbers = {int(tail): path for stem, path in files.items() if _is_number(tail := stem.rpartition("_")[2])}

    def find(id: str) -> tuple[float, float] | None:
        path = files.get(id) or (numbers.get(int(id)) if _is_number(id) else None)
        return size if path is None else image_size(path)

    return find


def _parameter(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise GroundlingError(f"--set {text}: expected KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _positive(text: str) -> int:
    if not _is_number(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def _size(text: str) -> tuple[float, float]:
    width, x, height = text.partition("x")
    if not (x and _is_number(width) and _is_number(height)):
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT, such as 640x480")
    return float(width), float(height)


def _verb(verbs: Any, name: str, line: str, description: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=line,
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _list(problems: Iterable[str], what: str) -> None:
    problems = list(problems)
    for problem in problems[:SHOWN]:
        _print(f"{what}: {problem}")
    if len(problems) > SHOWN:
        _print(f"... and {len(problems) - SHOWN} more")
    if problems:
        _print(f"{len(problems)} images {what}")


def _print(text: str) -> None:
    print(printable(text), file=sys.stderr)


def _is_number(text: str) -> bool:
    """Python refuses to read a number of thousands of digits."""
    return text.isdecimal() and len(text) <= 18
