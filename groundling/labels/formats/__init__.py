"""Exchange formats: what other tools read and write.

Each is a module with `write(images, folder)`, which exports the labels that are kept, and `read(folder)`, its inverse
as far as the format goes. `images` may be gone through more than once. Each module says what its format cannot hold.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from groundling.errors import GroundlingError
from groundling.labels.label import LabelledImage

FORMATS = {  # name on the command line -> module, one line
    "jsonl": ("native", "JSON lines with all that is known, labels that were left out too"),
    "coco": ("coco", "COCO detection JSON, with phrases, scores and captions"),
    "odvg": ("odvg", "ODVG JSON lines, one box a region (Grounding DINO)"),
    "odvg-tokens": ("odvg_tokens", "ODVG JSON lines, lists of boxes with tokens_positive (MMDetection)"),
    "mdetr": ("mdetr", "MDETR JSON: xywh boxes, character spans"),
    "label-studio": ("label_studio", "Label Studio predictions, with the labelling configuration"),
    "yolo": ("yolo", "YOLO text files with data.yaml"),
    "cvat": ("cvat", "CVAT for images 1.1"),
    "imagefolder": ("imagefolder", "Hugging Face imagefolder: metadata.jsonl beside the images of each split"),
    "fiftyone": ("fiftyone", "a folder that FiftyOne loads as COCODetectionDataset"),
    "flickr30k-entities": ("entities", "Flickr30k Entities: Sentences and Annotations"),
    "parquet": ("parquet", "Parquet with the images inside"),
    "webdataset": ("webdataset", "tars of images with their labels as JSON"),
}


def write(name: str, images: Iterable[LabelledImage], folder: Path) -> None:
    """Write the labels that are kept in one of FORMATS. `images` is gone through more than once: no generator."""
    folder.mkdir(parents=True, exist_ok=True)
    _module(name).write(images, folder)


def read(name: str, folder: Path) -> Iterator[LabelledImage]:
    """The images and labels of a folder in one of FORMATS; DataError names what is wrong in which file."""
    found: Iterator[LabelledImage] = _module(name).read(folder)
    return found


def _module(name: str) -> ModuleType:
    if name not in FORMATS:
        raise GroundlingError(f"unknown format {name!r}; there are {', '.join(FORMATS)}")
    return importlib.import_module(f"{__name__}.{FORMATS[name][0]}")
