"""A folder that FiftyOne loads by itself: images in `data`, COCO detections in `labels.json`.

    fiftyone.Dataset.from_dir(FOLDER, dataset_type=fiftyone.types.COCODetectionDataset)

Phrases, scores and mentions are attributes of the detections. Holds what COCO holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from groundling.labels.files import copy_image, file_name
from groundling.labels.formats import coco
from groundling.labels.formats.parts import with_labels
from groundling.labels.label import LabelledImage

DATA, LABELS = "data", "labels.json"


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    names = {image.id: copy_image(image.media, folder / DATA, file_name(image.id)) for image in with_labels(images)}
    coco.write_file(_Renamed(images, names), folder / LABELS)


def read(folder: Path) -> Iterator[LabelledImage]:
    for image in coco.read_file(folder / LABELS):
        yield replace(image, media=str(folder / DATA / image.media))


class _Renamed:
    """The same images by the names of their copies, as often as one asks."""

    def __init__(self, images: Iterable[LabelledImage], names: dict[str, str]) -> None:
        self.images, self.names = images, names

    def __iter__(self) -> Iterator[LabelledImage]:
        return (replace(image, media=self.names[image.id]) for image in with_labels(self.images))
