"""ReferItGame and the RefCOCO family: expressions that single out one object of an image.

On disk: `refs(SOMEBODY).p` with the expressions and `instances.json` with the boxes. The references are pickles, read
by an unpickler that builds lists, dictionaries, strings and numbers and refuses everything else. Each image is an
example, each expression a caption and, as a whole, a phrase with the box of its object.

Where a split divides the objects of one image (RefCOCOg of Google), the image is an example in each, with the id
`IMAGE-SPLIT`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from groundling.data.checks import Problems, checked_caption, expect, get, head, identity, read_json
from groundling.data.coco import Sizes, category_names, corners, image_rows, known_image, located
from groundling.data.pictures import Pictures
from groundling.data.plain_pickle import read_plain_pickle
from groundling.errors import DataError
from groundling.types import Box, Caption, Example, Phrase

FORMAT = "RefCOCO"
LOOKS_FOR = "a folder with refs(...).p and instances.json, or one such .p file"


def claims(path: Path) -> bool:
    file = _file(path)
    return file is not None and (file.parent / "instances.json").is_file()


def read(path: Path, problems: Problems) -> list[Example]:
    file = _file(path)
    assert file is not None, "read follows claims"
    instances = file.parent / "instances.json"
    content = read_json(instances)
    names, sizes = image_rows(content, str(instances))
    labels = category_names(content, str(instances))
    annotations = _annotations(content, sizes, str(instances), problems)
    expressions: dict[tuple[str, str], list[tuple[Caption, Phrase]]] = defaultdict(list)
    for number, ref in enumerate(expect(read_plain_pickle(file), list, str(file))):
        with problems.item():
            where = f"{file}: reference {ref.get('ref_id', number) if isinstance(ref, dict) else number}"
            key = known_image(ref, names, where), get(ref, "split", str, where)
            pairs = _expressions(ref, annotations, labels, where, problems)
            expressions[key] += pairs
    pictures = Pictures(file.parent)
    splits_of: dict[str, set[str]] = defaultdict(set)
    for id, split in expressions:
        splits_of[id].add(split)
    examples = []
    for (id, split), pairs in expressions.items():
        with problems.item():
            if not pairs:
                raise DataError(f"{file}: image {id} has no expression")
            media, size = located(pictures, names[id], sizes[id])
            captions = tuple(caption for caption, _ in pairs)
            gold = tuple(Phrase(i, p.span, p.boxes, kinds=p.kinds, entity=p.entity) for i, (_, p) in enumerate(pairs))
            own = id if len(splits_of[id]) == 1 else f"{id}-{split}"
            examples.append(Example(own, media, size, captions, gold, split=split))
    return examples


def annotation_files(path: Path) -> list[Path]:
    file = _file(path)
    return [file, file.parent / "instances.json"] if file else []


def _expressions(
    ref: Any, annotations: dict[str, tuple[Box, str]], labels: dict[str, str], where: str, problems: Problems
) -> list[tuple[Caption, Phrase]]:
    ann = identity(ref, "ann_id", where)
    if ann not in annotations:
        raise DataError(f"{where}: its object {ann} is not among the annotations of instances.json, or has no good box")
    box, category = annotations[ann]
    expressions = []
    for i, sentence in enumerate(get(ref, "sentences", list, where)):
        with problems.item():
            text = get(sentence, "sent" if "sent" in expect(sentence, dict, where) else "raw", str, where)
            caption = checked_caption(text, f"{where}, sentence {i}")
            kinds = (labels[category],) if category in labels else ()
            phrase = Phrase(0, (0, len(caption.tokens)), (box,), kinds=kinds, entity=identity(ref, "ref_id", where))
            expressions.append((caption, phrase))
    return expressions


def _annotations(content: Any, sizes: Sizes, where: str, problems: Problems) -> dict[str, tuple[Box, str]]:
    """Box and category of each object."""
    boxes = {}
    for number, row in enumerate(get(content, "annotations", list, where)):
        with problems.item():
            id = identity(row, "id", f"{where}: annotation {number}")
            location = f"{where}: annotation {id}"
            image = identity(row, "image_id", location)
            boxes[id] = corners(row, sizes.get(image, (0, 0)), location), identity(row, "category_id", location)
    return boxes


def _file(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix == ".p" and head(path, 2) else None
    return next(iter(sorted(path.glob("refs(*).p"))), None)
