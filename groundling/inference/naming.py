"""Nouns by image classes: where a classifier is sure that "a bird" is a squirrel, the caption says so.

Captioners learn few names of animals, dishes, buildings and vehicles from captions; the published classifier of a
thousand classes knows more (`regions.sources._image_classes`). A noun of a caption gives way to one of the same kind
in WordNet where the classifier finds that likely in the region of the word and in the whole image:

- "duck" for "bird", which says more: NARROWER;
- "lion" for "dog", which contradicts: OTHER, and the grounder's evidence of the dog is DOUBT at most;
- where no noun of the caption is of its kind, and the first one is hardly there, the caption becomes "a close up of a
  butterfly": CLOSE_UP.

The numbers were chosen on validation photos of COCO, where captions hardly ever need a change: 5 of 1,000 are changed,
and higher bounds of evidence would change more of them for the worse. The link of such a noun
has the `source` "image classes"; its evidence is the probability of the class in the region, as the classifier gives
it. Regions of a store have none: their captions stay as they are. No torch.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.inference.pointing import spans_of
from groundling.regions.sources._image_classes import class_nouns
from groundling.text.colours import COLOURS
from groundling.text.wordnet import wordnet
from groundling.types import Box, GroundedCaption, Link

Array = NDArray[Any]

SOURCE = "image classes"
SAME_PLURAL = frozenset({"sheep", "deer", "fish", "cattle", "bison"})  # captions have them of one and of many
UNCOUNTED = frozenset({"corn", "ice cream"})  # no article is before them
PLURALS = {"corn": "corn", "fish": "fish", "goose": "geese", "wolf": "wolves", "bison": "bison"}  # that no rule makes
NARROWER = (0.8, 0.2)  # least probability in the region and in the whole image
OTHER = (0.7, 0.3)
DOUBT, UNSEEN_DOUBT = 0.975, 0.65  # most evidence of the noun that gives way; of one for which there is no class
UNSEEN = frozenset({"giraffe", "cow", "horse", "sheep", "donut", "cattle", "calf", "pony", "lamb"})  # or hardly one
MANY_THINGS = "food"  # what a plate may have is not one thing
CLOSE_UP = (0.5, 0.55)  # least probability in the whole image, and most evidence of the first noun


def renamed(caption: GroundedCaption, boxes: Array, frame: Array, classes: Array | None) -> GroundedCaption:
    """The caption with better nouns. Of its regions: boxes (R, 4), frames (R,), probabilities (R, K) or None."""
    if classes is None or not len(classes) or not caption.links:
        return caption
    frames = sorted({*frame.tolist()})
    whole = _mean([(0, 0, *caption.size)] * len(frames), frames, boxes, frame, classes)
    if whole.max() < min(NARROWER[1], OTHER[1], CLOSE_UP[0]):
        return caption
    at: dict[int, list[Link]] = {}
    for link in caption.links:
        at.setdefault(link.token, []).append(link)
    tokens, sure = list(caption.tokens), dict[int, float]()
    for token, links in at.items():
        here = _mean([link.box for link in links], [link.frame for link in links], boxes, frame, classes)
        better = best_noun(tokens, token, here, whole, links[0].evidence, at)
        if better is not None:
            sure[token] = float(here[better])
            tokens = _with_noun(tokens, token, class_nouns()[0][better])
    if sure:
        return _replaced(caption, tokens, sure)
    return caption if len(frames) > 1 else _close_up(caption, boxes, classes, whole)


def best_noun(
    tokens: Sequence[str], token: int, here: Array, whole: Array, evidence: float | None, nouns: Container[int]
) -> int | None:
    """The noun, by its number, that replaces a token; None where the token stays.

    here, whole: the probabilities (K,) in its region and in the whole image. evidence: of the token. nouns: the tokens
    that are nouns. A part of a compound ("teddy bear") stays.
    """
    names, kinds = class_nouns()
    word, above = tokens[token], _above(tokens[token])
    in_compound = token - 1 in nouns or token + 1 in nouns or _in_compound(tokens, token)
    if in_compound or word == MANY_THINGS or "person" in above:
        return None
    lemma = wordnet().base(word)
    doubted = evidence is not None and evidence <= (UNSEEN_DOUBT if lemma in UNSEEN else DOUBT)
    for k in np.argsort(-here, kind="stable")[:3]:
        narrower = lemma in _above(names[k])
        least, least_whole = NARROWER if narrower else OTHER
        if here[k] < least or whole[k] < least_whole or not (narrower or doubted):
            continue
        if names[k] in UNCOUNTED and token and tokens[token - 1] in ("a", "an"):
            continue
        if kinds[k] in above and names[k].replace(" ", "_") not in above and names[k] not in tokens:
            return int(k)
    return None


def _close_up(caption: GroundedCaption, boxes: Array, classes: Array, whole: Array) -> GroundedCaption:
    """Of what fills the image, where the caption has nothing of its kind, and a first noun that is hardly there."""
    names, kinds = class_nouns()
    best, first = int(whole.argmax()), caption.links[0]
    unsure = first.evidence is not None and first.evidence <= CLOSE_UP[1]
    named = (
        any(kinds[best] in _above(caption.word(link)) for link in caption) or names[best].split()[-1] in caption.tokens
    )
    if whole[best] < CLOSE_UP[0] or named or not unsure or kinds[best] == "building":
        return caption
    tokens = _with_noun(["a", "close", "up", "of", "a", ""], 5, names[best])
    likely = classes[:, best] >= 0.9 * classes[:, best].max()
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    left, top, right, bottom = boxes[np.where(likely, areas, -1).argmax()].tolist()
    link = Link(5, (0, 0), (left, top, right, bottom), float(whole[best]))
    return _replaced(replace(caption, links=(link,), attention=()), tokens, {5: float(whole[best])})


def _mean(places: Sequence[Box], frames: Sequence[int], boxes: Array, frame: Array, classes: Array) -> Array:
    """(K,): the mean over boxes in frames, each seen as the region that overlaps most with it."""
    overlap = iou_of_arrays(np.array(places, np.float32), boxes.astype(np.float32))
    nearest = np.where(frame == np.array(frames)[:, None], overlap, -1).argmax(1)
    p: Array = classes[nearest].mean(0)
    return p


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
    """Is it one noun with the word before or after it? A colour is no part of it: "black bear"."""
    pairs = [tuple(tokens[i : i + 2]) for i in (token - 1, token) if 0 <= i < len(tokens) - 1]
    return any(pair[0] not in COLOURS and wordnet().base("_".join(pair)) is not None for pair in pairs)


def _with_noun(tokens: Sequence[str], token: int, noun: str) -> list[str]:
    """The words with another noun, in the number of the old one, and with its article."""
    words, old = list(tokens), tokens[token]
    one = {"a", "an", "one", "this"} & {*words[max(0, token - 3) : token]}
    many = old and (wordnet().base(old) != old or (old in SAME_PLURAL and (not one or "of" in words[:token][-1:])))
    words[token] = _plural(noun) if many else noun
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
