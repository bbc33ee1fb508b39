"""ODVG JSON lines as MMDetection has them: `bbox` is a list of boxes, `tokens_positive` the characters of the phrase.

Boxes are xyxy in pixels, characters half open. Not held: ids, confidence, what phrases of two captions have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from groundling.labels.formats.odvg import line, read_lines
from groundling.labels.formats.parts import box_of, captions_with_labels, dumped, with_labels, xyxy
from groundling.labels.label import Label, LabelledImage, Mention, as_box

FILE = "odvg-tokens.jsonl"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    with (folder / FILE).open("w", encoding="utf-8") as file:
        for image in with_labels(images):
            for at, text, mentioned in captions_with_labels(image):
                regions = [
                    {
                        "bbox": [xyxy(placed.box) for placed in label.boxes],
                        "phrase": text[slice(*mention.span)],
                        "tokens_positive": [list(mention.span)],
                    }
                    for label, mention in mentioned
                ]
                file.write(dumped(line(image, at, regions)) + "\n")


def read(folder: Path) -> Iterator[LabelledImage]:
    return read_lines(folder / FILE if folder.is_dir() else folder, _labels)


def _labels(regions: list[dict[str, Any]], at: int, text: str, size: tuple[int, int]) -> Iterator[Label]:
    for region in regions:
        boxes = region["bbox"] if isinstance(region["bbox"][0], list) else [region["bbox"]]
        mentions = tuple(Mention(at, (int(start), int(end))) for start, end in region["tokens_positive"])
        yield Label(str(region["phrase"]), "", mentions, tuple(box_of(as_box(box, size)) for box in boxes))
