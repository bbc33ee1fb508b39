"""InstaPIC-1.1M (Park et al., CVPR 2017): posts of people, with one caption each, emoji and all.

On disk: `json/insta-caption-{train,test1,test2}.json` with {user: {post: {"caption": ...}}}, and `images/USER_@_POST`
(with or without a suffix). As in Contrastive Learning for Image Captioning (NIPS 2017): lower-cased letters and emoji
are kept, everything else is removed, and a caption ends after 18 words; 2,000 training posts are held out as `val`.
Words that occur fewer than 5 times are unknown: that is the vocabulary's default. Sizes stay unknown, as opening a
million files would take minutes at each start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groundling.data.checks import Problems, expect, get, read_json
from groundling.data.pictures import SUFFIXES
from groundling.data.protocol import letters_of
from groundling.data.splits import held_out
from groundling.errors import DataError
from groundling.text.words import words
from groundling.types import Caption, Example

FORMAT = "InstaPIC-1.1M"
LOOKS_FOR = "json/insta-caption-train.json and insta-caption-test1.json, insta-caption-test2.json beside it"

LENGTH = 18
HELD_OUT = 2000


def claims(path: Path) -> bool:
    return bool(annotation_files(path))


def read(path: Path, problems: Problems) -> list[Example]:
    files = annotation_files(path)
    root = files[0].parent.parent if files[0].parent.name == "json" else files[0].parent
    files_of_images = list(root.glob("images/*"))
    images = {file.name: file for file in files_of_images}  # the name of a user may hold dots
    images |= {file.stem: file for file in files_of_images if file.suffix.lower() in SUFFIXES}
    examples = []
    for file in files:
        posts = [
            (f"{user}_@_{post}", row)
            for user, posts in expect(read_json(file), dict, str(file)).items()
            for post, row in expect(posts, dict, f"{file}: {user}").items()
        ]
        split = file.stem.removeprefix("insta-caption-")
        val = held_out((id for id, _ in posts), min(HELD_OUT, len(posts) // 10)) if split == "train" else set()
        for id, row in posts:
            with problems.item():
                examples.append(_example(id, row, "val" if id in val else split, images, f"{file}: {id}"))
    return examples


def _example(id: str, row: Any, split: str, images: dict[str, Path], where: str) -> Example:
    caption = post(get(row, "caption", str, where))
    if not caption.tokens:
        raise DataError(f"{where}: no word in the caption {caption.text[:40]!r}")
    if images and id not in images:
        raise DataError(f"{where}: no file of this name in images; add it")
    return Example(id, str(images[id]) if images else "", (0, 0), (caption,), split=split)


def post(text: str) -> Caption:
    """The first 18 words of a post: letters and emoji."""
    kept = []
    for word, span in words(text):
        if letters := letters_of(word):
            kept.append((letters, span))
    kept = kept[:LENGTH]
    return Caption(text, tuple(word for word, _ in kept), tuple(span for _, span in kept))


def annotation_files(path: Path) -> list[Path]:
    if path.is_file():
        return []
    return sorted(path.glob("json/insta-caption-*.json")) or sorted(path.glob("insta-caption-*.json"))
