"""Our own JSON lines: one image a line, with all that is known, left-out labels too. Holds everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from groundling.labels.formats.parts import dumped, json_lines, parsing
from groundling.labels.label import LabelledImage

FILE = "labels.jsonl"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    with (folder / FILE).open("w", encoding="utf-8") as file:
        for image in images:
            file.write(dumped(image.to_dict()) + "\n")


def read(folder: Path) -> Iterator[LabelledImage]:
    """From a folder with `labels.jsonl`, or from such a file."""
    for where, row in json_lines(folder / FILE if folder.is_dir() else folder):
        with parsing(where):
            image = LabelledImage.from_dict(row)
        yield image
