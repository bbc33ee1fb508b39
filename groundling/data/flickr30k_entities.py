"""Flickr30k Entities (Plummer et al., ICCV 2015): five captions an image, and the boxes of their noun phrases.

On disk: `Sentences/ID.txt` with `[/EN#entity/kind phrase]` mark-up, `Annotations/ID.xml` with the boxes of each
entity, both as folders or inside one zip; `train.txt`, `val.txt`, `test.txt` with one id a line; a folder of images.
The XML counts pixels from 1, both ends included. An image smaller than its `<size>` gets its boxes scaled.

An entity may have several boxes, and a box several entities. An entity without boxes was not drawn (`nobndbox`), is
the whole view (`scene`), or has the id 0: not visual. Its phrases are kept, with no box.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from groundling.data.checks import MAX_SIDE, Problems, checked_box, checked_caption, parse_xml
from groundling.data.pictures import Pictures
from groundling.errors import DataError
from groundling.files import decode, read_text
from groundling.images import image_size
from groundling.progress import track
from groundling.types import Box, Caption, Example, Phrase, Span

FORMAT = "Flickr30k Entities"
LOOKS_FOR = "a folder with Sentences/*.txt and Annotations/*.xml, or a zip that holds them"

SPLITS = ("train", "val", "test")
MARK = re.compile(r"\[/EN#(\d{1,18})/([^\s\[\]]+) ([^\[\]]*)\]")
MAX_BYTES = 1_000_000  # of one file; the largest published one has 30,000
METHODS = (ZIP_STORED, ZIP_DEFLATED)  # of others a few bytes may become gigabytes in one step

Boxes = dict[str, list[Box]]


def claims(path: Path) -> bool:
    return _find(path) is not None


def read(path: Path, problems: Problems) -> list[Example]:
    files = _find(path)
    assert files is not None, "read follows claims"
    root = path if path.is_dir() else path.parent
    pictures = Pictures(root)
    examples = []
    with files:
        split_of = _splits(root, files, problems)
        known = track(split_of.items(), "reading Flickr30k Entities", total=len(split_of), quiet=len(split_of) < 2000)
        for id, split in known:
            with problems.item():
                examples.append(_example(id, split, files, pictures, problems))
    return examples


def annotation_files(path: Path) -> list[Path]:
    files = _find(path)
    assert files is not None, "a data set has them"
    root = path if path.is_dir() else path.parent
    with files:
        found = [files.root] if files.archive else [files.root / name for name in files.members.values()]
    return found + [root / f"{name}.txt" for name in SPLITS]


def _example(id: str, split: str, files: Files, pictures: Pictures, problems: Problems) -> Example:
    drawn = parse_xml(files.text("Annotations", id), files.where("Annotations", id))
    drawn_size = _size(drawn, files.where("Annotations", id))
    media = str(pictures.by_stem(id)) if pictures else ""
    size = image_size(media) if media else drawn_size
    boxes = _boxes(drawn, drawn_size, size, files.where("Annotations", id), problems)
    captions: list[Caption] = []
    gold: list[Phrase] = []
    where = files.where("Sentences", id)
    for line, marked in enumerate(files.text("Sentences", id).splitlines(), start=1):
        text, marks = unmark(marked)
        with problems.item():
            if "[/EN" in text:
                raise DataError(f"{where}, line {line}: mark-up that is not [/EN#entity/kind phrase]: {marked[:60]!r}")
            caption = checked_caption(text, f"{where}, line {line}")
            gold += _phrases(caption, len(captions), marks, boxes)
            captions.append(caption)
    if not captions:
        raise DataError(f"{where}: no caption; there should be one a line")
    return Example(id, media, size, tuple(captions), tuple(gold), split=split)


# ---------------------------------------------------------------- sentences


def unmark(line: str) -> tuple[str, list[tuple[Span, str, tuple[str, ...]]]]:
    """The text without mark-up, and (characters, entity, kinds) of each phrase in it."""
    text, marks, end = "", [], 0
    for mark in MARK.finditer(line):
        text += line[end : mark.start()]
        marks.append(((len(text), len(text) + len(mark[3])), mark[1], tuple(mark[2].split("/"))))
        text += mark[3]
        end = mark.end()
    return (text + line[end:]).rstrip(), marks


def _phrases(
    caption: Caption, index: int, marks: list[tuple[Span, str, tuple[str, ...]]], boxes: Boxes
) -> Iterator[Phrase]:
    starts = [start for start, _ in caption.spans]
    for (left, right), entity, kinds in marks:
        first, last = bisect_left(starts, left), bisect_left(starts, right)
        if first < last:  # a phrase of punctuation alone has no word to stand for it
            yield Phrase(index, (first, last), tuple(boxes.get(entity, ())), kinds=kinds, entity=entity)


# ---------------------------------------------------------------- boxes


def _size(drawn: ElementTree.Element, where: str) -> tuple[int, int]:
    try:
        width, height = (int(drawn.findtext(f"size/{side}", "")) for side in ("width", "height"))
    except ValueError:
        width = height = 0
    if min(width, height) < 1 or max(width, height) > MAX_SIDE:
        raise DataError(f"{where}: no <size> with a <width> and a <height> of whole pixels; add it")
    return width, height


def _boxes(
    drawn: ElementTree.Element, drawn_size: tuple[int, int], size: tuple[int, int], where: str, problems: Problems
) -> Boxes:
    """Boxes of each entity, in continuous pixels of the image as it is on disk."""
    x, y = size[0] / drawn_size[0], size[1] / drawn_size[1]
    boxes: Boxes = defaultdict(list)
    for thing in drawn:
        names = [part.text or "" for part in thing if part.tag == "name"] if thing.tag == "object" else []
        for part in thing if names else ():
            if part.tag == "bndbox":
                with problems.item():
                    left, top, right, bottom = _box(part, drawn_size, f"{where}, entity {' '.join(names)}")
                    for name in names:
                        boxes[name].append((left * x, top * y, right * x, bottom * y))
    return boxes


def _box(drawn: ElementTree.Element, drawn_size: tuple[int, int], where: str) -> Box:
    sides = {side.tag: side.text or "" for side in drawn}
    try:
        left, top, right, bottom = (float(sides[side]) for side in ("xmin", "ymin", "xmax", "ymax"))
    except (KeyError, ValueError) as error:
        raise DataError(f"{where}: a <bndbox> needs <xmin>, <ymin>, <xmax>, <ymax>, each a number") from error
    return checked_box((left - 1, top - 1, right, bottom), drawn_size, where)


# ---------------------------------------------------------------- files


@dataclass
class Files:
    """`Sentences` and `Annotations`, in a folder or in a zip, by id."""

    root: Path
    archive: ZipFile | None
    members: dict[tuple[str, str], str]  # (Sentences or Annotations, id) -> path or name inside the zip

    def ids(self) -> list[str]:
        return [id for folder, id in self.members if folder == "Sentences"]

    def where(self, folder: str, id: str) -> str:
        return f"{self.root}/{self.members.get((folder, id), f'{folder}/{id}')}"

    def text(self, folder: str, id: str) -> str:
        name = self.members.get((folder, id))
        if name is None:
            raise DataError(f"{self.root}: there is no {folder}/{id}.{'txt' if folder == 'Sentences' else 'xml'}")
        if self.archive is None:
            return read_text(self.root / name)
        try:
            if self.archive.getinfo(name).compress_type not in METHODS:
                raise DataError(f"{self.where(folder, id)}: compressed in a way that is not read; make a plain zip")
            with self.archive.open(name) as member:
                content = member.read(MAX_BYTES + 1)  # what the zip says of its size may be wrong
        except (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
            raise DataError(f"{self.where(folder, id)}: the zip is damaged here ({error})") from error
        if len(content) > MAX_BYTES:
            raise DataError(f"{self.where(folder, id)}: more than {MAX_BYTES:,} bytes")
        return decode(content, self.where(folder, id))

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        if self.archive is not None:
            self.archive.close()


MEMBER = re.compile(r"(?:^|/)(Sentences)/([^/]+)\.txt$|(?:^|/)(Annotations)/([^/]+)\.xml$")


def _find(path: Path) -> Files | None:
    """The files at `path`: a zip, a folder with the two folders, or a folder with a zip."""
    if path.is_file():
        return _zipped(path) if path.suffix == ".zip" else None
    for folder in (path, path / "annotations", path / "Annotations"):
        if (folder / "Sentences").is_dir() and (folder / "Annotations").is_dir():
            names = [f"Sentences/{p.name}" for p in (folder / "Sentences").glob("*.txt")]
            names += [f"Annotations/{p.name}" for p in (folder / "Annotations").glob("*.xml")]
            return Files(folder, None, _members(sorted(names)))
    for archive in sorted(path.glob("*.zip")):
        if (files := _zipped(archive)) is not None:
            return files
    return None


def _zipped(path: Path) -> Files | None:
    if not path.is_file():  # a pipe would keep us waiting
        return None
    try:
        archive = ZipFile(path)
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    members = _members(archive.namelist())
    if any(folder == "Sentences" for folder, _ in members):
        return Files(path, archive, members)
    archive.close()
    return None


def _members(names: list[str]) -> dict[tuple[str, str], str]:
    members = {}
    for name in names:
        if match := MEMBER.search(name):
            members[match[1] or match[3], match[2] or match[4]] = name
    return members


def _splits(root: Path, files: Files, problems: Problems) -> dict[str, str]:
    """Split of each id, from the lists; every id with no split where there are no lists."""
    split_of: dict[str, str] = {}
    lists = [(name, root / f"{name}.txt") for name in SPLITS]
    for name, path in lists:
        if path.is_file():
            for line, id in enumerate(read_text(path).split("\n"), start=1):
                id = id.strip()
                if id in split_of:
                    problems.report(f"{path}, line {line}: the id {id!r} is listed twice")
                elif id:
                    split_of[id] = name
    return split_of or dict.fromkeys(files.ids(), "")
