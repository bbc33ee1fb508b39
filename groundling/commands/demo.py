"""The whole path on drawn scenes: data, regions, training, captions, scores, a page; on it a few real photos too."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

SMALL = {"hidden": 128, "embed": 128, "attention": 128, "dropout": 0.1, "lr": 3e-3, "decay-every": 6, "min-count": 2}

PHOTOS = {  # of scikit-image, inside its wheel -> whose they are, as its documentation says
    "astronaut.png": "NASA, public domain",
    "camera.png": "Lav Varshney, CC0",
    "chelsea.png": "Stefan van der Walt, CC0",
    "coffee.png": "Rachel Michetti, CC0",
    "rocket.jpg": "SpaceX, public domain",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The whole path on drawn scenes: data, regions, training, captions, scores, a page. On the page are also a\n"
        "few real photos, of scikit-image, as the weights of this package caption them, where both are installed.\n\n"
        "Every step is a command of its own, printed before it runs, so that this is also a tutorial. What is done\n"
        "already is not done again: a demo that was stopped goes on."
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), help="where all goes (default demo)")
    parser.add_argument("--images", type=int, default=1500, help="how many scenes (default 1500)")
    parser.add_argument("--epochs", type=int, default=14, help="how long to train (default 14)")


def run(args: argparse.Namespace) -> int:
    from groundling.commands import call

    folder: Path = args.folder
    page = folder / "page.html"
    found, missing = photos()
    all_steps = steps(folder, args.images, args.epochs, found)
    for number, step in enumerate(all_steps, start=1):
        if step[0] == "scenes" and _drawn(folder / "scenes", args.images):
            continue
        print(f"\n[{number}/{len(all_steps)}] groundling {shlex.join(step)}", flush=True)
        if code := call(step):
            return code
    if missing:
        print(f"\nReal photos were left out: {missing}.")
    print(f"\nOpen {page.resolve()} in a browser.")
    return 0


def photos() -> tuple[list[Path], str]:
    """The real photos, and, where they cannot be captioned here, what is missing instead."""
    from groundling import inference
    from groundling.errors import GroundlingError

    package = find_spec("skimage")
    if package is None:
        return [], "scikit-image is not installed; run: pip install 'groundling[demo]'"
    try:
        _ = inference.load().source
    except GroundlingError as error:
        return [], str(error)
    places = [Path(folder) / "data" / name for folder in package.submodule_search_locations or () for name in PHOTOS]
    return [place for place in places if place.exists()], ""


def steps(folder: Path, images: int, epochs: int, photos: Sequence[Path] = ()) -> list[list[str]]:
    """The commands of the demo, each as its words."""
    names = ("scenes", "regions", "model", "test.jsonl", "page.html", "photos.jsonl")
    scenes, regions, model, captions, page, real = (str(folder / name) for name in names)
    test = ["--data", scenes, "--split", "test"]
    small = [word for field, value in {"epochs": epochs, **SMALL}.items() for word in (f"--{field}", str(value))]
    return [
        ["scenes", scenes, "--images", str(images)],
        ["regions", "extract", scenes, "--source", "scenes", "--out", regions],
        ["doctor", scenes, "--regions", regions],
        ["train", "updown", "--data", scenes, "--regions", regions, "--out", model, *small],
        [
            "caption",
            scenes,
            "--split",
            "test",
            "--regions",
            regions,
            "--model",
            model,
            "--attention",
            "--out",
            captions,
        ],
        ["score", captions, *test],
        *([["caption", *map(str, photos), "--beam", "3", "--attention", "--out", real]] if photos else []),
        ["report", captions, *test, "-o", page, "--title", "What the captions point at", *_also(real, photos)],
    ]


def _also(captions: str, photos: Sequence[Path]) -> list[str]:
    """On the page first: the photos, with their licences."""
    if not photos:
        return []
    whose = "; ".join(f"{photo.stem}: {PHOTOS[photo.name]}" for photo in photos)
    note = f"First photos of scikit-image ({whose}), captioned by the weights of this package; then scenes."
    return ["--also", captions, "--note", note]


def _drawn(scenes: Path, images: int) -> bool:
    """Are these scenes drawn? What an interrupted drawing left is thrown away: the split lists are written last."""
    from groundling.errors import GroundlingError

    lists = [scenes / f"{split}.txt" for split in ("train", "val", "test")]
    if not all(path.exists() for path in lists):
        if (scenes / "Sentences").is_dir():
            shutil.rmtree(scenes)
        return False
    found = sum(len(path.read_text(encoding="utf-8").split()) for path in lists)
    if found != images:
        raise GroundlingError(f"{scenes} holds {found} scenes, not {images}: choose another folder, or delete it")
    return True
