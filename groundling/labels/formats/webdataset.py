"""WebDataset: tars of at most so many images; of each `KEY.jpg` (or its own ending) and `KEY.json`, all that is known.

`KEY.txt` has the captions, a line each, for readers that want text alone. Holds everything, left-out labels too.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from groundling.data.checks import parse_json
from groundling.images import SUFFIXES
from groundling.labels import files
from groundling.labels.formats.parts import dumped, parsing, with_labels
from groundling.labels.label import LabelledImage

IMAGES = 1000  # of a tar


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    rest, number = iter(with_labels(images)), 0
    while some := list(islice(rest, IMAGES)):
        with tarfile.open(folder / f"labels-{number:06d}.tar", "w", format=tarfile.PAX_FORMAT) as archive:
            for image in some:
                _add(archive, image)
        number += 1


def read(folder: Path) -> Iterator[LabelledImage]:
    for tar in sorted(folder.glob("*.tar")) if folder.is_dir() else [folder]:
        media: dict[str, str] = {}
        for name, content in files.members(str(tar)):
            key, _, ending = name.partition(".")
            if f".{ending.lower()}" in SUFFIXES:
                media[key] = f"{tar}{files.INSIDE}{name}"
            elif ending == "json":
                with parsing(f"{tar}{files.INSIDE}{name}"):
                    row = parse_json(content.decode("utf-8"), name)
                    image = LabelledImage.from_dict(row)
                yield replace(image, media=media.get(key, image.media))


def _add(archive: tarfile.TarFile, image: LabelledImage) -> None:
    content = files.content(image.media)
    key = files.file_name(image.id).replace(".", "_")  # a key ends at the first dot
    _file(archive, key + files.suffix(image.media, content), content)
    _file(archive, f"{key}.json", dumped(image.to_dict()).encode())
    _file(archive, f"{key}.txt", "\n".join(image.captions).encode())


def _file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """With no time and no owner: the same images, the same bytes."""
    about = tarfile.TarInfo(name)
    about.size = len(content)
    archive.addfile(about, io.BytesIO(content))
