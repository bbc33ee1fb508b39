"""ODVG JSON lines, one box a region: one line for each caption, {"filename", "height", "width", "grounding"}.

Boxes are xyxy in pixels. A phrase with several boxes is several regions. Not held: ids, confidence, which characters of
the caption a phrase is (where it comes twice, the first is taken), which captions are of one image but by file name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from groundling.labels.formats.parts import box_of, captions_with_labels, dumped, json_lines, parsing, with_labels, xyxy
from groundling.labels.label import Label, LabelledImage, Mention, as_box

FILE = "odvg.jsonl"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    with (folder / FILE).open("w", encoding="utf-8") as file:
        for image in with_labels(images):
            for at, text, mentioned in captions_with_labels(image):
                regions = [
                    {"bbox": xyxy(placed.box), "phrase": text[slice(*mention.span)]}
                    for label, mention in mentioned
                    for placed in label.boxes
                ]
                file.write(dumped(line(image, at, regions)) + "\n")


def read(folder: Path) -> Iterator[LabelledImage]:
    return read_lines(folder / FILE if folder.is_dir() else folder, _labels)


def line(image: LabelledImage, caption: int, regions: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of either dialect."""
    width, height = image.size
    grounding = {"caption": image.captions[caption], "regions": regions}
    return {"filename": image.media, "height": height, "width": width, "grounding": grounding}


def read_lines(path: Path, labels: Any) -> Iterator[LabelledImage]:
    """The images of a file; lines of one file name that follow each other are captions of one image."""
    for name, rows in groupby(json_lines(path), key=lambda pair: _name(*pair)):
        some = list(rows)
        with parsing(some[0][0]):
            first = some[0][1]
            size = int(first["width"]), int(first["height"])
            captions = tuple(str(row["grounding"]["caption"]) for _, row in some)
            found = [
                label
                for at, (_, row) in enumerate(some)
                for label in labels(row["grounding"]["regions"], at, captions[at], size)
            ]
            image = LabelledImage(Path(name).stem, name, size, captions, tuple(found))
        yield image


def _name(where: str, row: Any) -> str:
    with parsing(where):
        return str(row["filename"])


def _labels(regions: list[dict[str, Any]], at: int, text: str, size: tuple[int, int]) -> Iterator[Label]:
    for phrase, same in groupby(regions, key=lambda region: str(region["phrase"])):
        start = text.find(phrase)
        mentions = (Mention(at, (start, start + len(phrase))),) if start >= 0 and phrase else ()
        yield Label(phrase, "", mentions, tuple(box_of(as_box(region["bbox"], size)) for region in same))
