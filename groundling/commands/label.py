"""`groundling label`: captioned images in, phrases with boxes out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands import add_engine, add_joints, engine_of, probability, whole_number
from groundling.errors import printable

if TYPE_CHECKING:
    from groundling.labels.engine import Done, Job, Labelled
    from groundling.labels.inputs import Shard
    from groundling.parallel import Engine

DESCRIPTION = """\
Add boxes to captioned images: every noun phrase gets a box and a calibrated confidence. It needs no list of classes, no
GPU and no internet connection.

DATA is a data set that groundling reads (`groundling doctor DATA` checks it), a .tar or .parquet file, or a folder or
address of such files (s3://, gs://, with the package that fsspec asks for). Phrases of different captions that name
the same thing become one label; a plural phrase gets a box for each instance. A label of low confidence is not
exported; the label keeps the reason.

The labels are in OUT/shards, a JSON line for each image; --to writes them in other formats, too. If a run is stopped,
the same command continues it. The labels are the same bytes, whatever --workers is.

formats of --to:
"""

EPILOG = """\
examples:
  groundling label my/photos.csv --out labels --to coco
  groundling label shards/ --out labels --to odvg --to yolo --workers 4       # a folder of tars
  groundling label flickr30k --regions flickr30k.regions --out labels --review review.html
  groundling label my/photos.csv --adapt --out labels --to coco               # learn from these photos first
  groundling label --out labels --apply review.json --to coco                # what a person decided in the page
  groundling label --out labels --apply review.json --recalibrate --to coco
  groundling label s3://bucket/shards --out s3://bucket/labels --engine ray --address auto"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from groundling.labels.formats import FORMATS

    formats = "\n".join(f"  {name:20}{line}" for name, (_, line) in FORMATS.items())
    parser.description, parser.epilog = DESCRIPTION + formats, EPILOG
    parser.add_argument("data", nargs="?", metavar="DATA", help="images to label; not needed with --apply")
    parser.add_argument("--out", required=True, metavar="OUT", help="folder or address that the labels go to")
    parser.add_argument(
        "--model", default="", metavar="RUN", help="folder of a trained grounder (default: the package's)"
    )
    parser.add_argument(
        "--regions", default="", metavar="STORE", help="region store of the images (default: computed here)"
    )
    parser.add_argument(
        "--adapt", action="store_true",
        help="first train the grounder on DATA (a data set on this machine), by captions alone; kept in OUT/grounder",
    )  # fmt: skip
    parser.add_argument("--split", help="only this split of the data set")
    parser.add_argument("--skip-bad", action="store_true", help="leave out bad items of the data set")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda, mps")
    add_joints(parser)
    parser.add_argument(
        "--min-confidence", type=probability, metavar="P",
        help="export the boxes that are right with at least this probability (default: the threshold of the "
        "calibration, from which about three of four boxes are right)",
    )  # fmt: skip
    parser.add_argument(
        "--to",
        action="append",
        default=[],
        metavar="FORMAT",
        choices=[*FORMATS],
        help="also write this format; may be repeated",
    )
    parser.add_argument(
        "--calibration", default="", metavar="FILE", help="calibration of confidence to use; --recalibrate writes one"
    )
    review = parser.add_argument_group("review")
    review.add_argument(
        "--review", metavar="FILE", help="write an HTML page on which a person reviews the least certain labels"
    )
    review.add_argument(
        "--review-limit", type=whole_number(1), default=200, metavar="N", help="labels on that page (default 200)"
    )
    review.add_argument("--apply", metavar="FILE", help="merge the review that the page exported")
    review.add_argument("--recalibrate", action="store_true", help="with --apply: fit the confidence to the review")
    add_engine(parser, workers=None)


def run(args: argparse.Namespace) -> None:
    from groundling.commands.outputs import new_file
    from groundling.errors import GroundlingError

    if args.recalibrate and not args.apply:
        raise GroundlingError("--recalibrate learns from a review: name it with --apply review.json")
    page = new_file(args.review, args.data, args.apply) if args.review else None
    if args.data:
        _label(args)
    elif not (args.to or args.review or args.apply):
        raise GroundlingError("name DATA to label, or --to, --review or --apply for the labels that are in --out")
    images = _labels(args)
    _export(images, args, page)


def _label(args: argparse.Namespace) -> None:
    """Label what is not labelled yet; no other process labels into a folder of this machine meanwhile."""
    from groundling.commands.outputs import new_folder
    from groundling.files import locked
    from groundling.labels import engine, files
    from groundling.labels.inputs import shards

    workers = engine_of(args)
    found = shards(args.data, args.split, skip_bad=args.skip_bad)
    with nullcontext() if files.remote(args.out) else locked(new_folder(args.out), "the labels in"):
        job = _adapted(args) if args.adapt else engine.Job(
            args.out, args.model, args.device, args.regions, args.calibration, args.joints
        )  # fmt: skip
        rest = engine.prepare(job, found, job.labeller().about)
        done = _labelled(job, rest, workers, f"labelling {args.data}")
    images, problems = sum(one.images for one in done), sum(one.problems for one in done)
    kept = f", {len(found) - len(rest)} shards were there before" if len(rest) < len(found) else ""
    print(printable(f"{args.out}: {images} image{'s' * (images != 1)} labelled, {problems} could not be read{kept}"))


def _labelled(job: Job, shards: Sequence[Shard], workers: Engine, what: str) -> list[Done]:
    """Label the shards, showing how many images are done; of tars, the total follows from those that are done."""
    from groundling.labels import engine
    from groundling.parallel import LOCAL, Counter
    from groundling.progress import track_steps

    count = Counter(min(workers.workers, len(shards)) if workers.name == LOCAL else 1)
    sizes = [size for shard in shards if (size := shard.images) is not None]
    done: list[Done] = []

    def images() -> int:
        return max(count.value, sum(one.images for one in done))  # actors of Ray do not count

    def total() -> int | None:
        if len(sizes) == len(shards):
            return sum(sizes)
        return sum(one.images for one in done) * len(shards) // len(done) if done else None

    for one in track_steps(engine.run(job, shards, workers, count), what, images, total):
        done.append(one)
    return done


def _adapted(args: argparse.Namespace) -> Job:
    """Adapt the grounder to the data; how to label with it.

    Nobody has checked its boxes, so the confidence is reckoned as for the grounder that it began with.
    """
    from groundling.commands.adapt import of_store, region_store
    from groundling.data.dataset import load
    from groundling.errors import GroundlingError
    from groundling.inference.loading import GROUNDER, device_of, model_folder
    from groundling.labels import calibration, engine, files
    from groundling.labels.adaptation import adapt
    from groundling.recipes import load as load_model

    if files.remote(args.data) or files.remote(args.out):
        raise GroundlingError("--adapt trains on this machine: copy the data set here, and name a folder for --out")
    start, out = model_folder(args.model, GROUNDER), Path(args.out)
    wanted = load_model(start).fingerprint
    store = region_store(args.data, args.regions, out / "regions", wanted, args.workers, args.skip_bad)
    examples = of_store(load(args.data, args.split, skip_bad=args.skip_bad), store)
    print(printable(adapt(start, examples, store, out / GROUNDER, device_of(args.device))))
    beside = start / calibration.FILE
    confidence = args.calibration or (str(beside) if beside.exists() else "")
    regions = args.regions or str(out / "regions")
    return engine.Job(args.out, str(out / GROUNDER), args.device, regions, confidence, args.joints)


def _labels(args: argparse.Namespace) -> Labelled:
    """The labels of --out, as a review has changed them, those below --min-confidence marked."""
    from groundling.labels import engine, review

    names, least = engine.shard_names(args.out), args.min_confidence
    least = engine.threshold(args.out) if least is None else least
    if not args.apply:
        return engine.Labelled(args.out, names, lambda image: image.above(least))
    decisions, plain = review.read(Path(args.apply)), engine.Labelled(args.out, names)
    for _ in review.apply(plain, decisions):  # every decision must find its label before anything is written
        pass
    fitted = _recalibrate(args, plain, decisions) if args.recalibrate else None
    if fitted and args.min_confidence is None:
        least = fitted.threshold
    print(f"{len(decisions)} decisions merged")
    return engine.Labelled(args.out, names, lambda image: review.reviewed(image, decisions, fitted).above(least))


def _recalibrate(args: argparse.Namespace, images: Labelled, decisions: Any) -> Any:
    import json

    from groundling.labels import engine, files, review

    fitted = review.recalibrated(images, decisions, engine.digest(args.out))
    path = files.join(args.out, "calibration.json")
    files.write(path, json.dumps(fitted.to_json(), indent=1).encode())
    print(printable(f"{path}: fitted on {fitted.boxes} boxes; label more with --calibration {path}"))
    return fitted


def _export(images: Labelled, args: argparse.Namespace, page: Path | None) -> None:
    import tempfile

    from groundling.commands.outputs import new_folder
    from groundling.files import filling
    from groundling.labels import files, formats, review

    for name in args.to:
        target = files.join(args.out, name)
        if files.remote(args.out):
            with tempfile.TemporaryDirectory() as here:
                formats.write(name, images, Path(here))
                files.upload(Path(here), target)
        else:
            with filling(new_folder(target)) as folder:
                formats.write(name, images, folder)
        print(printable(f"{target}: {formats.FORMATS[name][1]}"))
    if page:
        shown = review.write_page(page, images, args.review_limit)
        print(printable(f"{args.review}: {shown} labels, the least certain first; open it in a browser"))
