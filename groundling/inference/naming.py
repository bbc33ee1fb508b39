"""Nouns by image classes: where the classifier is sure that "a bird" is a squirrel, the caption says so.

Captioners learn few names of animals, dishes, buildings and vehicles from captions; a classifier of a thousand classes
knows more (`regions.sources._image_classes`). A noun of a caption is replaced by a noun of the same kind in WordNet, if
the probability of that noun in the region of the word is at least LEAST of its kind, chosen on validation photos of
COCO. The link then has `source` "image classes", and its evidence is that probability, calibrated on the same photos.

Regions of a store have no such probabilities: their captions stay as they are. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.inference.pointing import spans_of
from groundling.regions.sources._image_classes import class_nouns
from groundling.regions.sources._pooling import iou
from groundling.text.wordnet import wordnet
from groundling.types import GroundedCaption, Link

Array = NDArray[Any]

SOURCE = "image classes"
LEAST = {"animal": 0.5, "food": 0.9, "building": 0.7, "vehicle": 0.9, "musical_instrument": 0.7, "ball": 0.7}
PLURALS = {"fish": "fish", "goose": "geese", "wolf": "wolves", "bison": "bison"}  # that no rule makes


def renamed(caption: GroundedCaption, boxes: Array, frame: Array, classes: Array | None) -> GroundedCaption:
    """The caption with better nouns. Of its regions: boxes (R, 4), frames (R,), probabilities (R, K) or None."""
    if classes is None or not len(classes) or classes.max() < min(LEAST.values()):
        return caption
    at: dict[int, list[Link]] = {}
    for link in caption.links:
        at.setdefault(link.token, []).append(link)
    tokens, sure = list(caption.tokens), dict[int, float]()
    for token, links in at.items():
        p = np.mean([classes[_nearest(link, boxes, frame)] for link in links], axis=0)
        if (better := best_noun(tokens, token, p, at)) is not None:
            sure[token] = float(p[better])
            tokens = _said(tokens, token, class_nouns()[0][better])
    return _replaced(caption, tokens, sure) if sure else caption


def best_noun(tokens: Sequence[str], token: int, p: Array, nouns: Mapping[int, Any]) -> int | None:
    """The noun, by its number, that replaces a token, with probabilities p (K,); None where the token stays.

    `nouns` has the tokens that are nouns. A part of a compound ("teddy bear") stays.
    """
    names, kinds = class_nouns()
    word, around = tokens[token], (token - 1, token + 1)
    above = _above(word)
    if "person" in above or any(other in nouns for other in around) or _in_compound(tokens, token):
        return None
    fits = np.array([p[k] if kind in above else 0.0 for k, kind in enumerate(kinds)])
    best = int(fits.argmax())
    if fits[best] < LEAST[kinds[best]] or names[best].replace(" ", "_") in above or names[best] in tokens:
        return None
    return best


def _nearest(link: Link, boxes: Array, frame: Array) -> int:
    """The region of its frame that overlaps most with a link's box."""
    overlap = iou(np.array([link.box], np.float32), boxes.astype(np.float32))[0]
    return int(np.where(frame == link.frame, overlap, -1).argmax())


@cache
def _above(word: str) -> frozenset[str]:
    """Lemmas of all that the noun is a kind of, its own among them."""
    net = wordnet()
    synset = net.synset(word)
    return (
        frozenset(lemma for kind in net.kinds(synset) for lemma in net.lemmas(kind))
        if synset is not None
        else frozenset()
    )


def _in_compound(tokens: Sequence[str], token: int) -> bool:
    pairs = ("_".join(tokens[i : i + 2]) for i in (token - 1, token) if 0 <= i < len(tokens) - 1)
    return any(wordnet().base(pair) is not None for pair in pairs)


def _said(tokens: Sequence[str], token: int, noun: str) -> list[str]:
    """The words with another noun, in the number of the old one, and with its article."""
    words = list(tokens)
    words[token] = _plural(noun) if wordnet().base(words[token]) != words[token] else noun
    if token and words[token - 1] in ("a", "an"):
        words[token - 1] = "an" if noun[0] in "aeiou" else "a"
    return words


def _plural(noun: str) -> str:
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def _replaced(caption: GroundedCaption, tokens: Sequence[str], sure: Mapping[int, float]) -> GroundedCaption:
    spans = spans_of(tokens)
    links = [replace(link, span=spans[link.token]) for link in caption.links]
    return replace(
        caption,
        text=" ".join(tokens),
        tokens=tuple(tokens),
        spans=spans,
        links=tuple(
            replace(link, evidence=sure[link.token], source=SOURCE) if link.token in sure else link for link in links
        ),
    )
