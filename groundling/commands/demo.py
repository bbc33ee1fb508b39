"""`groundling demo`: real photos with the weights of this package, then data, training and scores on drawn scenes."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

TITLE = "groundling demo"  # of the page
SMALL = {"hidden": 128, "embed": 128, "attention": 128, "dropout": 0.1, "lr": 3e-3, "decay-every": 6, "min-count": 2}


@dataclass(frozen=True)
class Photo:
    """A photo inside the wheel of a package, whose it is as that package says, and a sentence to audit."""

    file: str
    whose: str
    sentence: str  # about half of them name a thing that is not in the photo


PHOTOS = (
    Photo("skimage/data/astronaut.png", "NASA, public domain", "a smiling woman in an orange suit"),
    Photo("skimage/data/camera.png", "Lav Varshney, CC0", "a man with a camera on a field"),
    Photo("skimage/data/chelsea.png", "Stefan van der Walt, CC0", "a cat beside a surfboard"),
    Photo("skimage/data/clock_motion.png", "Stefan van der Walt, public domain", "a clock and a brown horse"),
    Photo("skimage/data/coffee.png", "Rachel Michetti, CC0", "a cup of coffee with a spoon on a table"),
    Photo("skimage/data/coins.png", "Brooklyn Museum, no known restrictions", "old coins beside a pizza"),
    Photo("skimage/data/grass.png", "Linolafett, CC0", "a giraffe in the grass"),
    Photo("skimage/data/moon.png", "NASA, public domain", "a crater on the moon"),
    Photo("skimage/data/motorcycle_left.png", "Middlebury stereo data 2014", "a motorcycle in a garage"),
    Photo("skimage/data/rocket.jpg", "SpaceX, public domain", "a rocket and two children"),
    Photo("sklearn/datasets/images/china.jpg", "danielbuechele, CC BY 2.0", "a temple below a blue sky"),
    Photo("sklearn/datasets/images/flower.jpg", "vultilion, CC BY 2.0", "a flower in front of a bus"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Try all steps in minutes. First the weights of this package caption a dozen real photos, ground a sentence\n"
        "in one of them and audit a sentence about each (about half of which name a thing that is not there), and a\n"
        "page is written. Then scenes are drawn, a captioner is trained on them and scored, and the page gets its\n"
        "captions too. The photos come with scikit-image and scikit-learn: pip install 'groundling[demo]'.\n\n"
        "Every step is a command of its own, printed before it runs, so that this is also a tutorial. If the demo\n"
        "is stopped, the same command continues it.\n\nexample:\n  groundling demo demo --images 300 --epochs 6"
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), help="folder to write (default demo)")
    parser.add_argument("--images", type=int, default=1500, help="number of scenes (default 1500)")
    parser.add_argument("--epochs", type=int, default=14, help="training epochs (default 14)")


def run(args: argparse.Namespace) -> int:
    folder: Path = args.folder
    missing = lay_out(folder)
    first = [] if missing else photo_steps(folder)
    then = scene_steps(folder, args.images, args.epochs, with_photos=not missing)
    if missing:
        print(f"Real photos are left out: {missing}.")
    elif code := _call(first, 1, len(first) + len(then)):
        return code
    else:
        _open(folder, "it has the photos; drawn scenes will be added in some minutes")
    if _drawn(folder / "scenes", args.images):
        then = then[1:]
    if code := _call(then, len(first) + 1, len(first) + len(then)):
        return code
    _open(folder, "all is on it")
    return 0


def _call(steps: Sequence[Sequence[str]], number: int, count: int) -> int:
    """Run commands one after the other; the code of the first that fails, or 0."""
    from groundling.commands import call

    for at, step in enumerate(steps, start=number):
        print(f"\n[{at}/{count}] groundling {shlex.join(step)}", flush=True)
        if code := call(step):
            return code
    return 0


def _open(folder: Path, what: str) -> None:
    audit = folder / "audit.html"
    print(f"\nOpen {(folder / 'page.html').resolve()} in a browser: {what}.", flush=True)
    if audit.exists():
        print(f"The audit is in {audit.resolve()}.", flush=True)


# ---------------------------------------------------------------- real photos


def lay_out(folder: Path) -> str:
    """Copy the photos to FOLDER/photos, with credits, and the sentences to FOLDER/captions.tsv; what is missing."""
    from groundling import inference
    from groundling.errors import GroundlingError

    paths = {photo: path for photo in PHOTOS if (path := _path(photo))}
    if not paths:
        return "scikit-image is not installed; run: pip install 'groundling[demo]'"
    try:
        _ = inference.load().source
    except GroundlingError as error:
        return str(error)
    photos = folder / "photos"
    photos.mkdir(parents=True, exist_ok=True)
    for path in paths.values():
        shutil.copyfile(path, photos / path.name)
    (photos / "CREDITS.txt").write_text(_credits(paths), encoding="utf-8")
    rows = [f"{path.name}\t{photo.sentence}\n" for photo, path in paths.items()]
    (folder / "captions.tsv").write_text("".join(rows), encoding="utf-8")
    return ""


def _path(photo: Photo) -> Path | None:
    """The file in its package, which is not imported; None where that is not installed."""
    package, _, rest = photo.file.partition("/")
    spec = find_spec(package)
    paths = [Path(folder) / rest for folder in (spec and spec.submodule_search_locations) or ()]
    return next((path for path in paths if path.exists()), None)


def _credits(photos: Iterable[Photo]) -> str:
    whose = "; ".join(f"{Path(photo.file).stem}: {photo.whose}" for photo in photos)
    return f"Photos of scikit-image and scikit-learn ({whose}), captioned by the weights of this package.\n"


def photo_steps(folder: Path) -> list[list[str]]:
    """The commands that caption, ground and audit the photos, each as its words."""
    names = ("photos", "photos.jsonl", "captions.tsv", "audit.jsonl", "audit.html", "page.html", "grounded.png")
    photos, captions, sentences, audit, audited, page, grounded = (str(folder / name) for name in names)
    one = next(photo for photo in PHOTOS if photo.file.endswith("coffee.png"))
    return [
        ["caption", photos, "--beam", "3", "--attention", "--out", captions],
        ["report", captions, "-o", page, "--title", TITLE, "--note", f"@{photos}/CREDITS.txt"],
        ["ground", f"{photos}/coffee.png", one.sentence, "--png", grounded],
        ["audit", sentences, "--images", photos, "-o", audit, "--html", audited],
    ]


# ---------------------------------------------------------------- drawn scenes


def scene_steps(folder: Path, images: int, epochs: int, with_photos: bool) -> list[list[str]]:
    """The commands that draw scenes, train on them and score the result, each as its words."""
    names = ("scenes", "regions", "model", "test.jsonl", "page.html", "photos.jsonl")
    scenes, regions, model, captions, page, photos = (str(folder / name) for name in names)
    split, made = ["--split", "test"], ["--regions", regions, "--model", model]
    small = [word for field, value in {"epochs": epochs, **SMALL}.items() for word in (f"--{field}", str(value))]
    also = ["--also", photos, "--note", f"@{folder / 'photos'}/CREDITS.txt"] if with_photos else []
    return [
        ["scenes", scenes, "--images", str(images)],
        ["regions", "extract", scenes, "--source", "scenes", "--out", regions],
        ["doctor", scenes, "--regions", regions],
        ["train", "updown", "--data", scenes, "--regions", regions, "--out", model, *small],
        ["caption", scenes, *split, *made, "--attention", "--out", captions],
        ["score", captions, "--data", scenes, *split],
        ["report", captions, "--data", scenes, *split, "-o", page, "--title", TITLE, *also],
    ]


def _drawn(scenes: Path, images: int) -> bool:
    """Are these scenes drawn? What an interrupted drawing left is thrown away: the split lists are written last."""
    from groundling.errors import GroundlingError

    lists = [scenes / f"{split}.txt" for split in ("train", "val", "test")]
    if not all(path.exists() for path in lists):
        if (scenes / "Sentences").is_dir():
            shutil.rmtree(scenes)
        return False
    count = sum(len(path.read_text(encoding="utf-8").split()) for path in lists)
    if count != images:
        raise GroundlingError(f"{scenes} holds {count} scenes, not {images}: choose another folder, or delete it")
    return True
