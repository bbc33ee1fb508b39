"""What is labelled: images with captions, from a data set, WebDataset tars or Parquet, in shards.

A shard is a part of the input that is read, labelled and written on its own: one tar, one row group of a Parquet file,
or some images of a data set. It names its input and holds no image, so that it can be sent to another process.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groundling.data.checks import parse_json
from groundling.errors import DataError
from groundling.images import SUFFIXES, open_image
from groundling.labels import files
from groundling.labels.parquet import Table

if TYPE_CHECKING:
    from PIL import Image

IMAGES = 128  # of a data set, in one shard
CAPTIONS = ("caption", "captions", "text", "sentence", "sentences", "description")  # keys of a sample's JSON


@dataclass(frozen=True)
class Pair:
    """An image, as a file or as the bytes of one, and its captions."""

    id: str
    media: str  # path, or where its bytes came from
    captions: tuple[str, ...]
    split: str = ""
    content: bytes | None = field(default=None, repr=False)  # of the image file; None: read it from `media`

    def opened(self) -> Image.Image:
        """RGB and upright; DataError names an image that cannot be read."""
        if self.content is None and not files.remote(self.media) and files.INSIDE not in self.media:
            return open_image(self.media)
        found = files.content(self.media) if self.content is None else self.content
        with tempfile.NamedTemporaryFile(suffix=os.path.splitext(self.media)[1]) as file:
            file.write(found)
            file.flush()
            try:
                return open_image(file.name)
            except DataError as error:
                raise DataError(str(error).replace(file.name, self.media)) from error


@dataclass(frozen=True)
class Shard:
    """A part of the input. `name` is that of its output."""

    name: str
    path: str = ""  # of a tar or a Parquet file
    group: int = 0  # the row group of a Parquet file
    pairs: tuple[Pair, ...] = ()  # of a data set

    @property
    def images(self) -> int | None:
        """How many it has; None for a tar, which has to be read for that."""
        if self.path.endswith(".parquet"):
            return Table.of(self.path).size(self.group)
        return None if self.path else len(self.pairs)

    def read(self) -> Iterator[Pair]:
        """Its images, one after the other; DataError where the shard itself cannot be read."""
        if self.path.endswith(".tar"):
            return _of_tar(self.path)
        if self.path.endswith(".parquet"):
            return _of_parquet(self.path, self.group)
        return iter(self.pairs)

    def to_json(self) -> str:
        """As text, to be sent elsewhere; pairs that hold bytes are read there again."""
        pairs = [[pair.id, pair.media, list(pair.captions), pair.split] for pair in self.pairs]
        return json.dumps({"name": self.name, "path": self.path, "group": self.group, "pairs": pairs})

    @staticmethod
    def from_json(text: str) -> Shard:
        row = json.loads(text)
        pairs = (Pair(id, media, tuple(captions), split) for id, media, captions, split in row["pairs"])
        return Shard(row["name"], row["path"], row["group"], tuple(pairs))


def shards(path: str, split: str | None = None, *, skip_bad: bool = False, images: int = IMAGES) -> list[Shard]:
    """The shards of what is at `path`: a data set, or a tar or Parquet file, or a folder of such files."""
    for ending, parts in ((".tar", _tar_shards), (".parquet", _parquet_shards)):
        if path.endswith(ending):
            return parts([path])
        if files.is_folder(path) and (found := files.listed(path, (ending,))):
            return parts(found)
    if files.remote(path):
        raise DataError(
            f"{path}: no .tar and no .parquet files here; other data sets are read from this machine's disk"
        )
    return _data_shards(path, split, skip_bad, images)


def _tar_shards(paths: Sequence[str]) -> list[Shard]:
    return [Shard(_stem(path), path) for path in paths]


def _parquet_shards(paths: Sequence[str]) -> list[Shard]:
    return [
        Shard(f"{_stem(path)}-{group:05d}", path, group) for path in paths for group in range(Table.of(path).groups)
    ]


def _data_shards(path: str, split: str | None, skip_bad: bool, images: int) -> list[Shard]:
    from groundling.data.dataset import load

    pairs = [
        Pair(example.id, example.media, tuple(caption.text for caption in example.captions), example.split)
        for example in load(path, split, skip_bad=skip_bad, annotated=False)
    ]
    return [
        Shard(f"{number:06d}", pairs=tuple(pairs[start : start + images]))
        for number, start in enumerate(range(0, len(pairs), images))
    ]


def _stem(path: str) -> str:
    return files.file_name(path.rsplit("/", 1)[-1].rsplit(".", 1)[0])


# ---------------------------------------------------------------- tars


def _of_tar(path: str) -> Iterator[Pair]:
    """Samples of a WebDataset: files that follow each other and share their name up to the first dot."""
    key, sample = "", dict[str, tuple[str, bytes]]()
    for name, content in files.members(path):
        folder, _, last = name.rpartition("/")
        stem, _, ending = last.partition(".")
        new = f"{folder}/{stem}" if folder else stem
        if new != key and sample:
            yield from _sample(path, key, sample)
            sample = {}
        key = new
        sample[ending.lower()] = name, content
    if sample:
        yield from _sample(path, key, sample)


def _sample(path: str, key: str, sample: dict[str, tuple[str, bytes]]) -> Iterator[Pair]:
    found = next((value for ending, value in sample.items() if f".{ending}" in SUFFIXES), None)
    if found is None:
        return
    name, content = found
    about = _about(sample["json"][1], f"{path}{files.INSIDE}{key}.json") if "json" in sample else {}
    captions = (
        sample["txt"][1].decode("utf-8", errors="replace").splitlines() if "txt" in sample else _captions_of(about)
    )
    id = str(about.get("id") or key)
    yield Pair(id, f"{path}{files.INSIDE}{name}", _texts(captions), str(about.get("split", "")), content)


def _about(content: bytes, where: str) -> dict[str, Any]:
    """The JSON of a sample; nothing where it is none."""
    try:
        row = parse_json(content.decode("utf-8"), where)
    except (DataError, UnicodeDecodeError):
        return {}
    return row if isinstance(row, dict) else {}


def _captions_of(about: dict[str, Any]) -> Any:
    return next((about[name] for name in CAPTIONS if about.get(name)), ())


def _texts(captions: Any) -> tuple[str, ...]:
    """Captions as strings, without empty ones."""
    texts = [captions] if isinstance(captions, str) else list(captions) if isinstance(captions, list | tuple) else []
    return tuple(text.strip() for text in texts if isinstance(text, str) and text.strip())


# ---------------------------------------------------------------- Parquet


def _of_parquet(path: str, group: int) -> Iterator[Pair]:
    table = Table.of(path)
    first = table.start(group)
    for number, row in enumerate(table.rows(group), start=first):
        image = row["image"]
        media = f"{path}{files.INSIDE}{number}" if isinstance(image, bytes) else table.beside(image)
        id = str(row["id"]) if row["id"] not in (None, "") else f"{_stem(path)}-{number}"
        yield Pair(id, media, _texts(row["captions"]), "", image if isinstance(image, bytes) else None)
