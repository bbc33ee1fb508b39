"""`groundling doctor`: is everything there, and is it right?"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands import doctor_photos

if TYPE_CHECKING:
    from groundling.data.dataset import Dataset
    from groundling.regions.store import Store
    from groundling.tensors import Regions
    from groundling.types import Example

DESCRIPTION = """\
Check a data set, its regions and this machine before training.

Every file of the data set is read and every bad item listed; every image must have regions, with finite features and
boxes inside the image. The upper bound is printed: the share of annotated phrases for which some region is right
(IoU > 0.5 with any of their boxes). No grounding on these regions can exceed it.

Pictures that occur twice are listed. One that is in two splits is a problem: scores would be too good.

Exit code 0: all is well. 1: there are problems; each is printed with what to do about it."""

EPILOG = """\
examples:
  groundling doctor                                     # this machine alone
  groundling doctor flickr30k
  groundling doctor flickr30k --regions flickr30k.regions
  groundling doctor my-captions.csv --skip-bad --json"""

CPU_TORCH = {  # elsewhere than on macOS, plain `pip install torch` may bring gigabytes of CUDA
    "Linux": "pip install torch --index-url https://download.pytorch.org/whl/cpu",
    "Windows": "pip install torch",
    "Darwin": "pip install torch",
}
SHOWN = 10  # problems of one kind that are printed; --json has them all
BATCH = 64
EXTRAS = (  # module, package on the index, extra, what it is for
    ("cv2", "opencv-contrib-python-headless", "photos", "regions of photos"),
    ("onnxruntime", "onnxruntime", "onnx", "captions of photos without PyTorch, detectors in ONNX files"),
    ("torchvision", "torchvision", "torchvision", "detectors of torchvision"),
    ("transformers", "transformers", "transformers", "detectors of transformers"),
    ("av", "av", "video", "frames of videos"),
    ("pillow_heif", "pillow-heif", "heic", "HEIC photos of phones"),
    ("h5py", "h5py", "hdf5", "regions from HDF5 files"),
    ("tensorboard", "tensorboard", "tensorboard", "training logs"),
    ("pycocoevalcap", "pycocoevalcap", "score", "data of METEOR, jars of SPICE"),
)


@dataclass
class Section:
    """What was found out about one thing: facts, a table, and what is wrong."""

    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help="folder or file of a data set")
    parser.add_argument("--regions", type=Path, metavar="STORE", help="region store made for the data set")
    parser.add_argument("--skip-bad", action="store_true", help="list bad items and go on with the others")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(args: argparse.Namespace) -> int:
    from groundling.errors import GroundlingError

    if args.regions is not None and args.data is None:
        raise GroundlingError("--regions needs DATA, whose images the regions are of")
    sections = {"environment": check_environment()}  # first: what is wrong with the data is read at the end
    dataset = None
    if args.data is not None:
        sections["data"], dataset = check_data(args.data, args.skip_bad)
    if dataset is not None and args.regions is not None:
        sections["regions"] = check_regions(dataset, args.regions)
    ok = not any(section.problems for section in sections.values())
    if args.json:
        content = {name: vars(section) for name, section in sections.items()}
        print(json.dumps({"ok": ok} | content, indent=2, ensure_ascii=False))
    else:
        show(sections, ok)
    return 0 if ok else 1


# ---------------------------------------------------------------- data


def check_data(path: Path, skip_bad: bool) -> tuple[Section, Dataset | None]:
    """Facts of every split, and all bad items; these are problems unless they are to be skipped."""
    from groundling.data.dataset import load
    from groundling.errors import DataError

    section = Section({"path": str(path)})
    try:
        dataset = load(path, skip_bad=True, annotated=False)
    except DataError as error:
        section.problems.append(str(error))
        return section, None
    bad = len(dataset.problems)
    section.facts |= {"format": dataset.format, "left out" if skip_bad else "bad items": bad}
    if skip_bad:
        section.facts |= {f"left out {i}": what for i, what in enumerate(dataset.problems[:SHOWN], start=1)}
    else:
        section.problems.extend(dataset.problems)
    section.problems.extend(_bad_files(dataset))
    section.problems.extend(_absent_files(dataset))
    section.problems.extend(doctor_photos.leaks(dataset))
    section.facts |= doctor_photos.advice(dataset)
    section.rows = [_split_row(name, dataset.split(name).examples) for name in dataset.splits]
    return section, dataset


def _absent_files(dataset: Dataset) -> Iterator[str]:
    """A table of captions names its pictures; where not one is there, the path is wrong."""
    from groundling.data.folder import FORMAT

    if dataset.format == FORMAT and not any(example.media for example in dataset):
        yield (
            f"not one of the {len(dataset)} images is there, such as {dataset[0].id!r}: put them beside the table "
            "or in a folder named images, or correct the column image"
        )


def _bad_files(dataset: Dataset) -> Iterator[str]:
    """Images whose files cannot be read, or have another size than the data set says."""
    from groundling.errors import DataError
    from groundling.images import SUFFIXES, image_size
    from groundling.progress import track

    shown = [example for example in dataset if Path(example.media).suffix.lower() in SUFFIXES]
    for example in track(shown, "image files", quiet=len(shown) < 2000):
        try:
            width, height = image_size(example.media)
        except DataError as error:
            yield str(error)
        else:
            if example.size not in ((0, 0), (width, height)):
                declared = f"{example.size[0]} x {example.size[1]}"
                yield f"{example.media}: {width} x {height} pixels, the data set says {declared}: boxes would be wrong"


def _split_row(name: str, examples: Sequence[Example]) -> dict[str, Any]:
    captions = [caption for example in examples for caption in example.captions]
    phrases = [phrase for example in examples for phrase in example.gold]
    return {
        "split": name,
        "images": len(examples),
        "files": sum(bool(example.media) for example in examples),
        "captions": len(captions),
        "words": sum(len(caption.tokens) for caption in captions),
        "phrases": len(phrases),
        "with boxes": sum(bool(phrase.boxes) for phrase in phrases),
        "boxes": sum(len({box for phrase in example.gold for box in phrase.boxes}) for example in examples),
        "things": sum(len(example.things) for example in examples),
    }


# ---------------------------------------------------------------- regions


def check_regions(dataset: Dataset, path: Path) -> Section:
    """Is there a good record for every image, and how well could it be grounded?"""
    from groundling.errors import DataError
    from groundling.progress import track
    from groundling.regions.store import Store

    section = Section({"path": str(path)})
    try:
        store = Store.open(path)
        there = [example for example in dataset if example.id in store]
    except DataError as error:
        section.problems.append(str(error))
        return section
    made = store.fingerprint
    section.facts |= {"made by": f"{made.name} {made.version}", "features": made.dim, "images": len(store)}
    section.facts["regions per image"] = round(store.regions / max(1, len(store)), 1)
    missing = [example.id for example in dataset if example.id not in store]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        section.problems.append(f"{len(missing)} images have no regions ({shown}); make them with `groundling regions`")
    right: dict[str, list[int]] = {}
    for example, regions in track(_read(store, there, section.problems), "regions", len(there), quiet=len(there) < 500):
        section.problems.extend(_wrong(example, regions))
        hits = right.setdefault(example.split, [0, 0])
        for reachable in _reachable(example, regions):
            hits[0] += reachable
            hits[1] += 1
    section.rows = [
        {"split": split, "phrases with boxes": n, "upper bound %": round(100 * hit / n, 2)}
        for split, (hit, n) in right.items()
        if n
    ]
    return section


def _read(store: Store, examples: Sequence[Example], problems: list[str]) -> Iterator[tuple[Example, Regions]]:
    """Each image with its regions, many at a time; a damaged one is a problem and is passed over."""
    from groundling.errors import DataError

    for start in range(0, len(examples), BATCH):
        some = examples[start : start + BATCH]
        try:
            batch = store.batch([example.id for example in some])
            yield from ((example, batch[i : i + 1]) for i, example in enumerate(some))
        except DataError:
            for example in some:
                try:
                    yield example, store[example.id]
                except DataError as error:
                    problems.append(str(error))


def _wrong(example: Example, regions: Regions) -> Iterator[str]:
    boxes, size = regions.boxes[regions.valid], regions.size[0]
    if len(boxes) == 0:
        yield f"image {example.id} has no region; make its regions again"
    if not regions.feats[regions.valid].isfinite().all():
        yield f"image {example.id} has features that are not finite; make its regions again"
    if not boxes.isfinite().all() or (boxes[:, 2:] <= boxes[:, :2]).any():
        yield f"image {example.id} has inverted or empty boxes; make its regions again"
    elif (boxes < -1).any() or (boxes[:, 2:] > size + 1).any():
        yield f"image {example.id} has boxes beyond its {size[0]:g} x {size[1]:g} pixels; make its regions again"
    if any(example.size) and tuple(size.tolist()) != tuple(map(float, example.size)):
        shown = f"{size[0]:g} x {size[1]:g}"
        yield f"image {example.id} is {example.size[0]} x {example.size[1]} pixels, its regions were made at {shown}"


def _reachable(example: Example, regions: Regions) -> Iterator[bool]:
    """For each phrase with boxes: does some region, of the same frame, have IoU > 0.5 with any of them?"""
    from groundling.data.collate import covers

    known: dict[tuple[Any, Any], bool] = {}
    for phrase in example.gold:
        if not phrase.boxes:
            continue
        key = phrase.boxes, phrase.frames
        if key not in known:
            known[key] = bool(covers(phrase, example, regions, 0).any())
        yield known[key]


# ---------------------------------------------------------------- environment


def check_environment() -> Section:
    """What runs here. Absent extras are told with their cure, and are no problem."""
    import torch

    from groundling import __version__
    from groundling.errors import GroundlingError
    from groundling.text.annotate import PACKAGED, checked_folder, installed

    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "no"
    section = Section({"groundling": __version__, "python": f"{platform.python_version()} on {platform.platform()}"})
    section.facts["to install torch for CPU alone"] = CPU_TORCH.get(platform.system(), CPU_TORCH["Linux"])
    section.facts |= {"torch": f"{torch.__version__}, {torch.get_num_threads()} threads, CUDA: {cuda}"}
    try:
        tagger = installed()
        if tagger.name == PACKAGED:
            checked_folder(tagger)
        section.facts["tagger"] = f"{tagger.name} {tagger.version}, spaCy {importlib.metadata.version('spacy')}"
    except (GroundlingError, importlib.metadata.PackageNotFoundError) as error:
        section.problems.append(f"tags and lemmas: {error}")
    for module, package, extra, use in EXTRAS:
        if importlib.util.find_spec(module):
            section.facts[package] = importlib.metadata.version(package) if _has(package) else "installed"
        else:
            section.facts[package] = f"not installed, for {use}: pip install 'groundling[{extra}]'"
    _check_photo_weights(section)
    section.facts["java"] = _java() or "not found; only the jars of METEOR (--java) and SPICE need it"
    return section


def _check_photo_weights(section: Section) -> None:
    """Absent weights are told with their cure; others than the pinned ones are a problem."""
    from groundling.errors import GroundlingError, MissingExtra
    from groundling.regions.sources._image_classes import IMAGE_CLASSES
    from groundling.regions.sources._keypoints import MOVENET
    from groundling.regions.sources._photos_files import FILES

    files = (*FILES, IMAGE_CLASSES, MOVENET)
    try:
        for file in files:
            file.read()
        section.facts["photo weights"] = f"{len(files)} files, as pinned"
    except MissingExtra as error:
        section.facts["photo weights"] = str(error)
    except GroundlingError as error:
        section.problems.append(str(error))


def _has(package: str) -> bool:
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


def _java() -> str:
    """The first line of `java -version`, or "" where there is none that runs."""
    java = shutil.which("java")
    if java is None:
        return ""
    try:
        answer = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (answer.stderr or answer.stdout).split("\n")[0].strip()


# ---------------------------------------------------------------- output


def show(sections: dict[str, Section], ok: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from groundling.errors import printable

    console = Console(soft_wrap=True, highlight=False)
    for name, section in sections.items():
        console.print(f"[bold]{name}[/bold]")
        width = max(map(len, section.facts), default=0)
        for key, value in section.facts.items():
            console.print(
                f"  {key:<{width}}  {escape(f'{value:,}' if isinstance(value, int) else printable(str(value)))}"
            )
        if section.rows:
            columns = [column for column in section.rows[0] if any(row[column] for row in section.rows)]
            table = Table(box=None, padding=(0, 0, 0, 2))
            for column in columns:
                table.add_column(column, justify="left" if column == "split" else "right", no_wrap=True)
            for row in section.rows:
                table.add_row(*(f"{row[c]:,}" if isinstance(row[c], int) else str(row[c]) for c in columns))
            console.print(table)
        for problem in section.problems[:SHOWN]:
            console.print(f"  [red]problem[/red]  {escape(printable(problem))}")
        if len(section.problems) > SHOWN:
            console.print(f"  [red]problem[/red]  and {len(section.problems) - SHOWN:,} more; --json lists them all")
        console.print()
    console.print("[green]all is well[/green]" if ok else "[red]problems were found[/red]")
