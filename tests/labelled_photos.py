"""Labelled pictures that hold every case: several captions, several boxes, a label that was left out; and phrases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from groundling.labels import Label, LabelledImage, Mention, PlacedBox
from groundling.labels.phrases import ALONE, CaptionPhrase
from groundling.text.noun_phrases import NounPhrase
from groundling.text.wordnet import wordnet

CAPTIONS = ("A man walks two dogs.", "Someone with dogs & a “red” leash")


def picture(path: Path, size: tuple[int, int] = (120, 80), seed: int = 0) -> str:
    noise = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).save(path)
    return str(path)


def labelled(folder: Path) -> list[LabelledImage]:
    """Two images whose files are in `folder`, one of each split."""
    man = Label("A man", "man", (Mention(0, (0, 5)),), (PlacedBox((10.25, 5, 40, 75.5), 0.7, 0.8),), 0.9)
    dogs = Label(
        "two dogs",
        "dog",
        (Mention(0, (12, 20)), Mention(1, (13, 17))),
        (PlacedBox((50, 40, 70, 79), 0.6, 0.75), PlacedBox((80, 40, 110.5, 79), 0.5, 0.65)),
        0.95,
    )
    sky = Label("Someone", "someone", (Mention(1, (0, 7)),), (), 0.2, "probably not in the image (evidence 0.20)")
    first = LabelledImage("a", picture(folder / "a.png"), (120, 80), CAPTIONS, (man, dogs, sky), "train")
    cat = Label("A cat", "cat", (Mention(0, (0, 5)),), (PlacedBox((0, 0, 30, 30), 0.9, 0.95),), None)
    second = LabelledImage("b", picture(folder / "b.png", (64, 48), 1), (64, 48), ("A cat.",), (cat,), "val")
    return [first, second]


def phrase(head: str, caption: int = 0, at: int = 0, count: int = ALONE, definite: bool = False) -> CaptionPhrase:
    synset = wordnet().synset(head) if head else None
    words = NounPhrase(f"a {head}", (at, at + 5), ("a", head), head, head)
    return CaptionPhrase(caption, words, synset, count, definite)
