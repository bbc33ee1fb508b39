"""CVAT for images 1.1: one XML file. Labels are head nouns; each box has the attributes phrase and confidence.

Boxes of one thing share the attribute `thing`. Images are named within the folder that holds them all, as CVAT names
them. Not held: captions and where they name a thing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from groundling.data.checks import parse_xml
from groundling.files import read_text
from groundling.labels.formats.parts import box_of, finite, heads, parsing, with_labels
from groundling.labels.label import Label, LabelledImage, as_box

FILE = "annotations.xml"
ATTRIBUTES = ("phrase", "confidence", "thing")


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    splits, folders = set[str](), set[str]()
    for image in with_labels(images):
        splits |= {image.split} - {""}
        folders.add(os.path.dirname(image.media))
    common = os.path.commonpath(folders) if folders and all(map(os.path.isabs, folders)) else ""
    with (folder / FILE).open("w", encoding="utf-8") as file:
        xml = XMLGenerator(file, "utf-8", short_empty_elements=True)
        xml.startDocument()
        _start(xml, "annotations", {})
        _text(xml, "version", "1.1")
        _meta(xml, heads(images), sorted(splits))
        for number, image in enumerate(with_labels(images)):
            _image(xml, number, replace(image, media=os.path.relpath(image.media, common) if common else image.media))
        xml.endElement("annotations")
        xml.endDocument()


def read(folder: Path) -> Iterator[LabelledImage]:
    path = folder / FILE if folder.is_dir() else folder
    for element in parse_xml(read_text(path), str(path)).iter("image"):
        name = element.get("name", "")
        with parsing(f"{path}, image {name}"):
            size = int(element.get("width", "0")), int(element.get("height", "0"))
            things: dict[str, list[ElementTree.Element]] = {}
            for number, box in enumerate(element.iter("box")):
                things.setdefault(_attribute(box, "thing", f"box {number}"), []).append(box)
            labels = tuple(_label(boxes, size) for boxes in things.values())
            image = LabelledImage(Path(name).stem, name, size, (), labels, element.get("subset", ""))
        yield image


def _meta(xml: XMLGenerator, names: Iterable[str], splits: Sequence[str]) -> None:
    """Of a task, or where images have splits of a project, which alone has subsets."""
    whole = "project" if splits else "task"
    _start(xml, "meta", {})
    _start(xml, whole, {})
    if splits:
        _start(xml, "subsets", {})
        for split in splits:
            _text(xml, "subset", split)
        xml.endElement("subsets")
    _start(xml, "labels", {})
    for name in names:
        _start(xml, "label", {})
        _text(xml, "name", name)
        _text(xml, "type", "rectangle")
        _start(xml, "attributes", {})
        for attribute in ATTRIBUTES:
            _start(xml, "attribute", {})
            for tag, text in (("name", attribute), ("mutable", "False"), ("input_type", "text")):
                _text(xml, tag, text)
            _text(xml, "default_value", "")
            _text(xml, "values", "")
            xml.endElement("attribute")
        xml.endElement("attributes")
        xml.endElement("label")
    for tag in ("labels", whole, "meta"):
        xml.endElement(tag)


def _image(xml: XMLGenerator, number: int, image: LabelledImage) -> None:
    width, height = map(str, image.size)
    named = {"id": str(number), "name": image.media} | ({"subset": image.split} if image.split else {})
    _start(xml, "image", named | {"width": width, "height": height})
    for at, label in enumerate(image.kept):
        for placed in label.boxes:
            sides = dict(zip(("xtl", "ytl", "xbr", "ybr"), (f"{x:.2f}" for x in placed.box), strict=True))
            start = {"label": label.head, "source": "auto", "occluded": "0"}
            _start(xml, "box", start | sides | {"z_order": "0"})
            for name, value in zip(ATTRIBUTES, (label.phrase, f"{placed.confidence:.4f}", str(at)), strict=True):
                _text(xml, "attribute", value, {"name": name})
            xml.endElement("box")
    xml.endElement("image")


def _start(xml: XMLGenerator, tag: str, attributes: dict[str, str]) -> None:
    xml.startElement(tag, AttributesImpl(attributes))


def _text(xml: XMLGenerator, tag: str, text: str, attributes: dict[str, str] | None = None) -> None:
    _start(xml, tag, attributes or {})
    xml.characters("".join(c for c in text if c >= " " or c in "\t\n"))  # XML cannot hold other control characters
    xml.endElement(tag)


def _attribute(box: ElementTree.Element, name: str, other: str) -> str:
    return next((one.text or "" for one in box.iter("attribute") if one.get("name") == name), other)


def _label(boxes: list[ElementTree.Element], size: tuple[int, int]) -> Label:
    head = boxes[0].get("label", "")
    placed = [
        box_of(
            as_box([finite(box.get(side, "nan")) for side in ("xtl", "ytl", "xbr", "ybr")], size),
            finite(_attribute(box, "confidence", "1") or "1"),
        )
        for box in boxes
    ]
    return Label(_attribute(boxes[0], "phrase", head), head, (), tuple(placed))
