"""The sizes of the images that outputs of models refer to: options of the commands that read them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundling.formats.folder import ImageFolder
    from groundling.formats.grounded import View
    from groundling.formats.rows import Row


def add_sizes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the size of images")
    group.add_argument("--images", metavar="FOLDER", help="the images, each found by its name")
    group.add_argument("--size", type=size, metavar="WxH", help="all images have this size, in pixels")
    add_seen(group)


def add_seen(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--resized", type=size, metavar="WxH", help="Qwen2.5-VL: the size at which it saw the images")
    group.add_argument(
        "--max-pixels",
        type=int,
        metavar="N",
        help="Qwen2.5-VL: the limit of its processor, from which that size follows",
    )


@dataclass(frozen=True)
class Sizes:
    folder: ImageFolder | None
    size: tuple[int, int] | None
    resized: tuple[int, int] | None
    max_pixels: int | None

    def view(self, row: Row) -> View:
        """The image of a row; DataError where nothing tells its size."""
        from groundling.formats.grounded import View, seen_by_qwen

        width, height = self._size(row)
        seen = row.seen or self.resized
        if seen is None and self.max_pixels:
            seen = seen_by_qwen((width, height), self.max_pixels)
        return View(width, height, seen)

    def _size(self, row: Row) -> tuple[int, int]:
        from groundling.errors import DataError
        from groundling.images import image_size

        known = row.size or self.size
        if known is None and self.folder is None:
            raise DataError("nothing tells the size of the image: give --images FOLDER or --size WxH")
        return known or image_size(self.folder.find(row.image, row.file))  # type: ignore[union-attr]


def sizes_of(args: argparse.Namespace) -> Sizes:
    from groundling.formats.folder import ImageFolder

    folder = ImageFolder(args.images) if args.images else None
    return Sizes(folder, getattr(args, "size", None), args.resized, args.max_pixels)


def size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and 0 < int(width) < 10**6 and 0 < int(height) < 10**6):
        raise argparse.ArgumentTypeError(f"takes a width and a height such as 640x480, got {text!r}")
    return int(width), int(height)
