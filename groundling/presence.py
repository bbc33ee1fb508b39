"""Phrase grounding over a data set: where the phrases are, and whether the model knows which are not there at all.

Present are the noun phrases of an image's captions. Absent are phrases of other images' captions, as many, whose head
noun no caption of the image has, nor a kind of it, nor what it is a kind of. So one in two is present: a probability of
this module speaks of such a mixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.grounding import FORMAT, THRESHOLD, PhraseGrounder, joined
from groundling.metrics.calibration import Bin, Isotonic, expected_calibration_error, isotonic, reliability
from groundling.metrics.phrases import KEPT, Localisation, Query, localise
from groundling.metrics.statistics import Array
from groundling.progress import track
from groundling.regions.fingerprints import require
from groundling.regions.store import Store
from groundling.text.classes import head_noun
from groundling.text.wordnet import wordnet
from groundling.types import Example

Words = tuple[str, ...]


def queries(model: PhraseGrounder, examples: Dataset, store: Store) -> Iterator[list[Query]]:
    """The annotated phrases of each image that has any, with the boxes that the model ranks first."""
    _same_regions(model, examples, store)
    for example in examples:
        drawn = [phrase for phrase in example.gold if phrase.boxes]
        if not drawn:
            continue
        regions = store[example.id]
        said = [example.captions[phrase.caption].tokens[slice(*phrase.span)] for phrase in drawn]
        order = model.rank(regions, said).overlap.argsort(dim=-1, descending=True, stable=True).cpu().numpy()
        boxes = regions.boxes[0][: order.shape[1]].double().numpy()
        scale = np.tile(regions.size[0].numpy() / np.array(example.size if all(example.size) else regions.size[0]), 2)
        yield [
            Query(
                f"{example.id}/{phrase.caption}/{phrase.span[0]}",
                boxes[row[:KEPT]],
                np.array(phrase.boxes, float) * scale,
                boxes,
                phrase.kinds,
                phrase.label,
            )
            for phrase, row in zip(drawn, order, strict=True)
        ]


def localised(
    model: PhraseGrounder, examples: Dataset, store: Store, iou: float = 0.5, *, quiet: bool = True
) -> dict[str, Localisation]:
    """How well a grounder finds annotated phrases: by `any` of their boxes, and by the `union`, the box around all."""
    each = track(queries(model, examples, store), "images", len(examples), quiet=quiet)
    asked = [query for some in each for query in some]
    return {"any": localise(asked, "any", iou), "union": localise(asked, "union", iou)}


# ---------------------------------------------------------------- presence


@dataclass(frozen=True)
class Presence:
    """A calibration, and how good it is on images that it was not fitted on."""

    calibration: Isotonic
    ece: float
    curve: list[Bin]
    accuracy: float  # of "found", at the threshold
    fitted_on: int  # phrases, half of them absent
    judged_on: int

    def to_json(self) -> dict[str, Any]:
        row = asdict(self) | {"calibration": self.calibration.to_json()}
        return {"format": FORMAT, "threshold": THRESHOLD, "share_present": 0.5, **row}


def calibrate(model: PhraseGrounder, examples: Dataset, store: Store, seed: int = 0) -> Presence:
    """Fit on one half of the images, judge on the other; the hash of an image's id decides which it is in."""
    _same_regions(model, examples, store)
    scores, truth, first = evidence(model, examples, store, seed)
    if not (first.any() and (~first).any()):
        raise DataError(f"{len(examples)} images are too few to fit on one half and judge on the other")
    fitted = isotonic(scores[first], truth[first])
    said = fitted(scores[~first])
    curve = reliability(said, truth[~first])
    right = float(((said >= THRESHOLD) == (truth[~first] > 0)).mean())
    return Presence(fitted, expected_calibration_error(curve), curve, right, int(first.sum()), int((~first).sum()))


def evidence(
    model: PhraseGrounder, examples: Dataset, store: Store, seed: int
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Of present and absent phrases: how well the best region fits; 1 or 0; is the image in the first half?"""
    draw = np.random.default_rng(seed)
    phrases = [_phrases(example) for example in examples]
    pool = [said for of_image in phrases for said in of_image.items()]
    scores, truth, first = [], [], []
    for example, present in zip(examples, phrases, strict=True):
        absent = _absent(present, pool, draw)
        said = [*list(present)[: len(absent)], *absent]
        if not said:
            continue
        found = model.rank(store[example.id], said).evidence.tolist()
        scores += found
        truth += [1.0] * (len(said) - len(absent)) + [0.0] * len(absent)
        first += [_first_half(example.id)] * len(said)
    return np.array(scores, float), np.array(truth), np.array(first, bool)


def _phrases(example: Example) -> dict[Words, int]:
    """The different noun phrases of an image whose head WordNet knows, each with the synset of its head."""
    found: dict[Words, int] = {}
    for caption in example.captions:
        for span in joined(caption):
            head = head_noun(caption, span)
            synset = wordnet().synset(caption.lemmas[head]) if head >= 0 else None
            if synset is not None:
                found[caption.tokens[slice(*span)]] = synset
    return found


def _absent(
    present: dict[Words, int], pool: Sequence[tuple[Words, int]], draw: np.random.Generator, tries: int = 20
) -> list[Words]:
    """As many phrases that are not in the image; fewer where chance does not find them."""
    net = wordnet()
    here = set(present.values())
    above = {kind for synset in here for kind in net.kinds(synset)}
    found: dict[Words, None] = {}
    for at in draw.integers(len(pool), size=tries * len(present)):
        if len(found) == len(present):
            break
        words, synset = pool[at]
        if synset not in above and not here & set(net.kinds(synset)):
            found[words] = None
    return list(found)


def _first_half(id: str) -> bool:
    return blake2b(id.encode(), digest_size=1).digest()[0] % 2 == 0


def _same_regions(model: PhraseGrounder, examples: Dataset, store: Store) -> None:
    require(store.fingerprint, model.model.fingerprint)
    store.require(example.id for example in examples)
