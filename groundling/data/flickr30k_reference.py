"""Flickr30k Entities as its evaluator has it: `flickr30k_cleaned_class.json` with its split file beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from groundling.data import evaluator_files
from groundling.data.checks import Problems, head, read_json
from groundling.data.pictures import Pictures
from groundling.types import Example

FORMAT = "Flickr30k-Entities reference"
LOOKS_FOR = "flickr30k_cleaned_class.json (process_clss, process_idx, process_bnd_box) and split_ids_*.json beside it"


def claims(path: Path) -> bool:
    file = _file(path)
    return file is not None and '"process_idx"' in (start := head(file)) and '"image_id"' in start


def read(path: Path, problems: Problems) -> list[Example]:
    file = _file(path)
    assert file is not None, "read follows claims"
    split_of: dict[str, str] = {}
    for splits in sorted(file.parent.glob("split_ids_*.json")):
        split_of |= evaluator_files.read_splits(read_json(splits), str(splits))
    examples = evaluator_files.image_examples(read_json(file), split_of, str(file), problems)
    pictures = Pictures(file.parent)
    if not pictures:
        return examples
    shown = []
    for example in examples:
        with problems.item():
            shown.append(replace(example, media=str(pictures.by_stem(example.id))))
    return shown


def annotation_files(path: Path) -> list[Path]:
    file = _file(path)
    return [file, *file.parent.glob("split_ids_*.json")] if file else []


def _file(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix == ".json" else None
    return next(iter(sorted(path.glob("flickr30k_cleaned_class*.json"))), None)
