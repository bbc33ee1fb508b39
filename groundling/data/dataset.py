"""A data set, whatever its format on disk.

Every reader is a module with `FORMAT` (its name), `LOOKS_FOR` (what it needs, in words), `claims(path) -> bool`,
`read(path, problems) -> list[Example]` and `annotation_files(path) -> list[Path]` (what it reads beside images).

Boxes are continuous: pixel i covers [i, i + 1), so the pixels 1 to 500 of a file that counts from 1, both included, are
0.0 to 500.0 here.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

from groundling.data.checks import Problems
from groundling.data.splits import held_out
from groundling.errors import DataError, printable
from groundling.images import SUFFIXES
from groundling.progress import collector_paused
from groundling.text.annotate import annotate
from groundling.types import Example

log = logging.getLogger(__name__)

READERS = (  # in order of being asked
    "protocol",
    "flickr30k_entities",
    "flickr30k_reference",
    "activitynet_entities",
    "karpathy",
    "refcoco",
    "instapic",
    "coco",
    "folder",
)


@dataclass(frozen=True)
class Dataset:
    """Examples with a name. `problems` are the items that were left out."""

    name: str
    root: Path
    examples: tuple[Example, ...]
    format: str = ""
    problems: tuple[str, ...] = ()

    @cached_property
    def by_id(self) -> dict[str, Example]:
        return {example.id: example for example in self.examples}

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, in order of appearance."""
        return tuple(dict.fromkeys(example.split for example in self.examples))

    def split(self, name: str) -> Dataset:
        """The examples of one split; DataError names those that there are."""
        chosen = tuple(example for example in self.examples if example.split == name)
        if not chosen:
            raise DataError(f"unknown split {name!r}; {self.name} has {', '.join(self.splits) or 'no examples'}")
        return replace(self, examples=chosen)

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    def __getitem__(self, index: int) -> Example:
        return self.examples[index]


def load(
    path: Path | str,
    split: str | None = None,
    *,
    skip_bad: bool = False,
    annotated: bool = True,
    cache: Path | None = None,
) -> Dataset:
    """Read a data set of any known format, with tags, lemmas and noun phrases unless `annotated` is False.

    A bad item is a DataError; with `skip_bad` it is left out, logged and listed in `problems`. Annotations are kept in
    the folder `cache`: by default `.groundling` beside the data, or the user's cache folder where that is read-only.
    A data set that names no splits is divided: a tenth of it, chosen by the hash of the ids, is `val`.
    """
    path = Path(path)
    reader = find_reader(path)
    problems = Problems(skip_bad)
    root = path if path.is_dir() else path.parent
    with collector_paused():
        examples = _unique(reader.read(path, problems), path, problems)
        if not examples and problems.found:
            raise DataError(f"{path}: all {len(problems.found)} items are bad; the first: {problems.found[0]}")
        if not examples:
            raise DataError(f"{path}: no usable example, read as {reader.FORMAT}: {reader.LOOKS_FOR}")
        if not any(example.split for example in examples):
            examples = _divided(examples)
            log.info("%s names no splits: a tenth of its images, chosen by the hash of their ids, is val", path)
        if problems.found:
            first = printable(problems.found[0])  # it may quote what is in the file
            log.warning("%s: left out %d bad items; the first: %s", path, len(problems.found), first)
        if not any(example.media for example in examples):
            log.info("%s came without images: regions must be imported, not made", path)
        name = path.resolve().name if path.is_dir() else path.resolve().stem
        dataset = Dataset(name, root, tuple(examples), reader.FORMAT, tuple(problems.found))
        if split is not None:
            dataset = dataset.split(split)
        return _annotated(dataset, cache or cache_folder(root)) if annotated else dataset


def find_reader(path: Path) -> ModuleType:
    """The module that reads what is at `path`; DataError says what was looked for."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    modules = [importlib.import_module(f"groundling.data.{name}") for name in READERS]
    try:
        for module in modules:
            if module.claims(path):
                return module
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    sought = "\n".join(f"  {module.FORMAT}: {module.LOOKS_FOR}" for module in modules)
    raise DataError(f"{path}: no known data set is here{_captions_wanted(path)}; looked for\n{sought}")


def annotation_files(path: Path) -> list[Path]:
    """The files of a data set that are read beside its images; none where no data set is."""
    try:
        return list(find_reader(path).annotation_files(path))
    except (DataError, OSError):
        return []


def _captions_wanted(path: Path) -> str:
    """What a folder of pictures alone needs to be a data set."""
    pictures = sum(file.suffix.lower() in SUFFIXES for file in path.iterdir()) if path.is_dir() else 0
    files = "a picture" if pictures == 1 else f"{pictures} pictures"
    return f", {files} without captions: add captions.csv with the columns image and caption" if pictures else ""


def cache_folder(root: Path) -> Path:
    """`.groundling` beside the data where one can write, else a folder of its own in the user's cache."""
    beside = root / ".groundling"
    target = beside if beside.is_dir() else root
    if os.access(target, os.W_OK) and target.stat().st_mode & 0o222:  # a super-user may, but was asked not to
        return beside
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]
    return home / "groundling" / f"{root.resolve().name}-{name}"


def _annotated(dataset: Dataset, folder: Path) -> Dataset:
    captions = [caption for example in dataset for caption in example.captions]
    tagged = iter(annotate(captions, folder / "annotations.json.gz"))
    examples = (replace(e, captions=tuple(next(tagged) for _ in e.captions)) for e in dataset)
    return replace(dataset, examples=tuple(examples))


def _unique(examples: Sequence[Example], path: Path, problems: Problems) -> list[Example]:
    """Without later examples of the same id, each of which is a problem."""
    kept: dict[str, Example] = {}
    for example in examples:
        if example.id in kept:
            problems.report(f"{path}: the id {example.id!r} appears more than once; give each image its own")
        else:
            kept[example.id] = example
    return list(kept.values())


def _divided(examples: Sequence[Example]) -> list[Example]:
    """A tenth (at least one of two or more) becomes `val`, the rest `train`."""
    held = held_out((example.id for example in examples), (len(examples) + 9) // 10 if len(examples) > 1 else 0)
    return [replace(example, split="val" if example.id in held else "train") for example in examples]
