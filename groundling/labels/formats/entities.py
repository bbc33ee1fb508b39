"""Flickr30k Entities: `Sentences/ID.txt` with `[/EN#entity/kind phrase]`, `Annotations/ID.xml` with the boxes.

Every label is an entity, its number counts from 1 in each image; pixels are whole and count from 1, as in the original.
`NAME.txt` lists the ids of each split, `images` holds the images. Not held: confidence, head nouns, parts of pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from groundling.data import dataset
from groundling.labels.files import copy_image, file_name
from groundling.labels.formats.parts import box_of, split_of, with_labels
from groundling.labels.label import Label, LabelledImage, Mention
from groundling.text.wordnet import wordnet
from groundling.types import Box, Example

KINDS = {"person": "people", "people": "people", "clothing": "clothing", "animal": "animals", "vehicle": "vehicles"}


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    for name in ("Sentences", "Annotations"):
        (folder / name).mkdir(exist_ok=True)
    splits: dict[str, list[str]] = {}
    for image in with_labels(images):
        stem = file_name(image.id)
        splits.setdefault(split_of(image), []).append(stem)
        if image.media:
            copy_image(image.media, folder / "images", stem)
        (folder / "Sentences" / f"{stem}.txt").write_text(_sentences(image), encoding="utf-8")
        (folder / "Annotations" / f"{stem}.xml").write_text(_annotations(image, stem), encoding="utf-8")
    for split, ids in splits.items():
        (folder / f"{split}.txt").write_text("\n".join(ids) + "\n", encoding="utf-8")


def read(folder: Path) -> Iterator[LabelledImage]:
    for example in dataset.load(folder, annotated=False):
        yield _read(example)


def _sentences(image: LabelledImage) -> str:
    lines = []
    for at, text in enumerate(image.captions):
        found = [(one.span, i) for i, label in enumerate(image.kept, 1) for one in label.mentions if one.caption == at]
        line, end = "", 0
        for (start, stop), number in sorted(found):
            if start < end:
                continue  # a phrase inside a phrase: the format cannot say so
            kind = _kind(image.kept[number - 1].head)
            line += _plain(text[end:start]) + f"[/EN#{number}/{kind} {_plain(text[start:stop])}]"
            end = stop
        lines.append(line + _plain(text[end:]))
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Without the characters of the mark-up, and on one line."""
    return text.replace("[", "(").replace("]", ")").replace("\n", " ").replace("\r", " ")


def _kind(head: str) -> str:
    """The type of a phrase by what its noun is a kind of."""
    net = wordnet()
    synset = net.synset(head)
    above = set(net.kinds(synset)) if synset is not None else set()
    return next((kind for noun, kind in KINDS.items() if net.synset(noun) in above), "other")


def _annotations(image: LabelledImage, stem: str) -> str:
    width, height = image.size
    size = f"  <size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    objects = [
        f"  <object>\n    <name>{number}</name>\n    {_bndbox(placed.box, image.size)}\n  </object>"
        for number, label in enumerate(image.kept, 1)
        for placed in label.boxes
    ]
    name = f"  <filename>{escape(stem)}.jpg</filename>"
    return "\n".join(["<annotation>", name, size, *objects, "</annotation>"]) + "\n"


def _bndbox(box: Box, size: tuple[int, int]) -> str:
    """Whole pixels that count from 1, both ends included."""
    left, top, right, bottom = (round(x) for x in box)
    left, top = min(left, size[0] - 1), min(top, size[1] - 1)
    sides = {"xmin": left + 1, "ymin": top + 1, "xmax": max(right, left + 1), "ymax": max(bottom, top + 1)}
    return "<bndbox>" + "".join(f"<{name}>{value}</{name}>" for name, value in sides.items()) + "</bndbox>"


def _read(example: Example) -> LabelledImage:
    captions = tuple(caption.text for caption in example.captions)
    mentions: dict[str, list[Mention]] = {}
    boxes: dict[str, tuple[Box, ...]] = {}
    for phrase in example.gold:
        spans = example.captions[phrase.caption].spans[slice(*phrase.span)]
        mentions.setdefault(phrase.entity, []).append(Mention(phrase.caption, (spans[0][0], spans[-1][1])))
        boxes[phrase.entity] = phrase.boxes
    labels = []
    for entity, mentioned in mentions.items():
        texts = [captions[one.caption][slice(*one.span)] for one in mentioned]
        text = max(texts, key=lambda text: len(text.split()))
        labels.append(Label(text, "", tuple(mentioned), tuple(box_of(box) for box in boxes[entity])))
    return LabelledImage(example.id, example.media, example.size, captions, tuple(labels), example.split)
