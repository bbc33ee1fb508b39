"""Karpathy's files `dataset_{coco,flickr8k,flickr30k}.json`: raw sentences, and the splits that captioning papers use.

COCO's `restval` (the rest of its validation images) is trained on, as in the papers. Tokens are made anew from the raw
sentences, so that all data sets are read alike. Images are found by `filepath/filename` or by `filename`; their sizes
stay unknown, as opening 120,000 files would take half a minute at each start.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from groundling.data.checks import Problems, checked_caption, get, head, identity, read_json
from groundling.data.pictures import Pictures
from groundling.data.splits import canonical
from groundling.progress import track
from groundling.types import Caption, Example

FORMAT = "Karpathy splits"
LOOKS_FOR = "dataset_coco.json, dataset_flickr8k.json or dataset_flickr30k.json (images with sentences and a split)"


def claims(path: Path) -> bool:
    file = _file(path)
    return file is not None and '"sentences"' in (start := head(file)) and '"filename"' in start


def read(path: Path, problems: Problems) -> list[Example]:
    file = _file(path)
    assert file is not None, "read follows claims"
    rows = get(read_json(file), "images", list, str(file))
    pictures = Pictures(file.parent)
    examples = []
    for number, row in enumerate(track(rows, "reading images", quiet=len(rows) < 2000)):
        with problems.item():
            examples.append(_example(row, f"{file}: image {number}", pictures, problems))
    return examples


def annotation_files(path: Path) -> list[Path]:
    return [file] if (file := _file(path)) else []


def _example(row: Any, where: str, pictures: Pictures, problems: Problems) -> Example:
    name = get(row, "filename", str, where)
    where = f"{where} ({name})"
    captions: list[Caption] = []
    for i, sentence in enumerate(get(row, "sentences", list, where)):
        with problems.item():
            captions.append(
                checked_caption(get(sentence, "raw", str, f"{where}, sentence {i}"), f"{where}, sentence {i}")
            )
    id = identity(row, "cocoid", where) if "cocoid" in row else PurePosixPath(name).stem
    media = str(pictures.by_name(f"{row.get('filepath', '')}/{name}".lstrip("/"))) if pictures else ""
    return Example(id, media, (0, 0), tuple(captions), split=canonical(get(row, "split", str, where)))


def _file(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix == ".json" else None
    return next(iter(sorted(path.glob("dataset_*.json"))), None)
