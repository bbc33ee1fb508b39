r"""Captions and boxes of twenty photos that no data set of ours has, on one picture: `docs/photos.png`.

    pip install --no-deps --target /tmp/photos scikit-image scikit-learn
    apt-get download opencv-doc && dpkg-deb -x opencv-doc_*.deb /tmp/photos/debian
    python tools/contact_sheet.py /tmp/photos docs/photos.png
    python tools/contact_sheet.py /tmp/photos docs/four.png --columns 2 \
        --only coffee squirrel_cls motorcycle_left messi5

Photos of packages that are installed are taken from there. Prints each caption.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

import groundling
from groundling import inference
from groundling.errors import GroundlingError
from groundling.images import open_image

SKIMAGE, SKLEARN = "skimage/data", "sklearn/datasets/images"
DEBIAN = "usr/share/doc/opencv-doc/examples/data"
PHOTOS = {  # where it is -> whose it is, as the package says
    f"{SKIMAGE}/astronaut.png": "NASA, public domain",
    f"{SKIMAGE}/camera.png": "Lav Varshney, CC0",
    f"{SKIMAGE}/chelsea.png": "Stefan van der Walt, CC0",
    f"{SKIMAGE}/coffee.png": "Rachel Michetti, CC0",
    f"{SKIMAGE}/motorcycle_left.png": "Middlebury stereo data 2014",
    f"{SKIMAGE}/rocket.jpg": "SpaceX, public domain",
    f"{SKLEARN}/china.jpg": "danielbuechele, CC BY 2.0",
    f"{SKLEARN}/flower.jpg": "vultilion, CC BY 2.0",
    **{
        f"{DEBIAN}/{name}": "OpenCV, Apache-2.0 and BSD-3-Clause"
        for name in (
            "baboon.jpg",
            "basketball1.png",
            "building.jpg",
            "butterfly.jpg",
            "chicky_512.png",
            "fruits.jpg",
            "home.jpg",
            "left01.jpg",
            "leuvenA.jpg",
            "licenseplate_motion.jpg",
            "messi5.jpg",
            "squirrel_cls.jpg",
        )
    },
}
SIDE, GAP = 380, 10  # pixels: how wide each picture is, and how far from the next
LARGE = 640  # how wide it is drawn, letters being equally large then


def find(photo: str, folder: Path | None) -> Path:
    """Below the folder, or where its package is installed."""
    package, _, rest = photo.partition("/")
    spec = None if package == "usr" else find_spec(package)  # found, not executed
    places = [Path(place) / rest for place in (spec.submodule_search_locations or ())] if spec else [Path("/") / photo]
    if folder:
        places += [folder / photo, folder / "debian" / photo]
    for place in places:
        if place.exists():
            return place
    raise GroundlingError(f"{photo} is not there; this tool's --help tells how to get it")


def sheet(pictures: list[Image.Image], columns: int) -> Image.Image:
    """Rows of pictures, each as high as its highest one."""
    rows = [pictures[i : i + columns] for i in range(0, len(pictures), columns)]
    heights = [max(picture.height for picture in row) + GAP for row in rows]
    whole = Image.new("RGB", (columns * (SIDE + GAP) - GAP, sum(heights) - GAP), "white")
    for row, top in zip(rows, (sum(heights[:i]) for i in range(len(rows))), strict=True):
        for column, picture in enumerate(row):
            whole.paste(picture, (column * (SIDE + GAP), top))
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", type=Path, help="where packages were unpacked; installed ones are found without it")
    parser.add_argument("out", type=Path, help="the PNG file")
    parser.add_argument("--model", default="", metavar="RUN", help="a captioner (default: that of the package)")
    parser.add_argument("--grounder", default="", metavar="RUN", help="grounder for the nouns of captions")
    parser.add_argument("--beam", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these photos, in this order (default: all)")
    parser.add_argument("--columns", type=int, default=5, metavar="N", help="pictures in a row (default 5)")
    args = parser.parse_args()
    try:
        names = {Path(photo).stem: photo for photo in PHOTOS}
        if unknown := set(args.only or ()) - names.keys():
            raise GroundlingError(f"no photo {', '.join(sorted(unknown))}; there are {', '.join(names)}")
        paths = {find(names[name], args.folder): PHOTOS[names[name]] for name in args.only or names}
        captioner = inference.load(args.model, grounder=args.grounder)
        pictures = []
        for path, whose in paths.items():
            caption = captioner.caption(path, inference.BeamSearch(beam=args.beam))
            doubt = ", ".join(sorted({caption.word(link) for link in caption if caption.weak(link)}))
            print(f"{path.name} ({whose}): {caption.text}" + (f" [weak: {doubt}]" if doubt else ""), flush=True)
            picture = open_image(path)
            drawn = groundling.draw(picture.resize((LARGE, round(picture.height * LARGE / picture.width))), caption)
            pictures.append(drawn.resize((SIDE, round(drawn.height * SIDE / LARGE))))
    except GroundlingError as error:
        print(error, file=sys.stderr)
        return 2
    sheet(pictures, args.columns).quantize(256).save(args.out, optimize=True)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
