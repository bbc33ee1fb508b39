"""Phrase grounding over a data set: does a grounder put phrases where people drew them?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.images import open_image
from groundling.inference.bodies import PARTS
from groundling.inference.grounder import PhraseGrounder
from groundling.inference.inputs import with_pixels
from groundling.metrics.phrases import KEPT, Localisation, Query, localise
from groundling.progress import track
from groundling.regions.fingerprints import require
from groundling.regions.store import Store
from groundling.text.colours import colour_words
from groundling.text.morphology import lemma_of
from groundling.types import Box, Example, Phrase
from groundling.video import is_clip

SEVERAL = "one of several"  # type of phrases whose noun other things of the image have too: "a bald man" among men


def queries(
    model: PhraseGrounder, examples: Dataset | Sequence[Example], store: Store, *, argmax: bool = False
) -> Iterator[list[Query]]:
    """The annotated phrases of each image that has any, with the boxes that the model ranks first.

    Ranked by how likely a box covers the right place, colours that are named and parts of bodies being looked for in
    the pixels where the data set has them; or with `argmax` by s of eq. 1 alone, as in the paper.
    """
    require(store.fingerprint, model.model.fingerprint)
    store.require(example.id for example in examples)
    for example in examples:
        drawn = [phrase for phrase in example.gold if phrase.boxes]
        if not drawn:
            continue
        regions, colours = store[example.id], colours_of(example, drawn)
        tokens = [example.captions[phrase.caption].tokens[slice(*phrase.span)] for phrase in drawn]
        named = any(colours) or (model.joints and not PARTS.keys().isdisjoint(phrase[-1] for phrase in tokens))
        if named and not argmax and has_pixels(example):
            with suppress(DataError):  # of a picture that cannot be read the regions are known all the same
                regions = with_pixels(regions, open_image(example.media))
        ranking = model.rank(regions, tokens, colours)
        by = ranking.similarity if argmax else ranking.overlap
        order = by.argsort(dim=-1, descending=True, stable=True).cpu().numpy()
        boxes = ranking.boxes.cpu().double().numpy()
        own = (ranking.overlap >= 0).cpu().numpy()  # boxes that a phrase may have: all regions, and its own parts
        scale = regions.scale(0, example.size).numpy()
        yield [
            Query(
                f"{example.id}/{phrase.caption}/{phrase.span[0]}",
                boxes[row[may[row]][:KEPT]],
                np.array(phrase.boxes, float) * scale,
                boxes[may],
                (*phrase.kinds, SEVERAL) if several else phrase.kinds,
                phrase.label,
            )
            for phrase, row, may, several in zip(drawn, order, own, of_several(example, drawn), strict=True)
        ]


def has_pixels(example: Example) -> bool:
    """Whether its picture can be looked at."""
    return bool(example.media) and not is_clip(example.media)


def colours_of(example: Example, phrases: Sequence[Phrase]) -> list[tuple[str, ...]]:
    """The words for colours that annotated phrases have, in their captions."""
    words: dict[Phrase, tuple[str, ...]] = {}
    for number, caption in enumerate(example.captions):
        some = sorted((one for one in example.gold if one.caption == number), key=lambda one: one.span)
        words |= zip(some, colour_words(caption.tokens, [phrase.span for phrase in some]), strict=True)
    return [words[phrase] for phrase in phrases]


def of_several(example: Example, phrases: Sequence[Phrase]) -> list[bool]:
    """Which phrases share the lemma of their last word with a phrase of other boxes in the same image?

    Only what stands before that word tells such things apart.
    """
    last = [example.captions[phrase.caption].tokens[phrase.span[1] - 1] for phrase in phrases]
    nouns = list(map(lemma_of, last))
    boxes: dict[str, set[tuple[Box, ...]]] = {}
    for noun, phrase in zip(nouns, phrases, strict=True):
        boxes.setdefault(noun, set()).add(phrase.boxes)
    return [len(boxes[noun]) > 1 for noun in nouns]


def localised(
    model: PhraseGrounder,
    examples: Dataset,
    store: Store,
    iou: float = 0.5,
    *,
    quiet: bool = True,
    argmax: bool = False,
) -> dict[str, Localisation]:
    """How well a grounder finds annotated phrases."""
    each = queries(model, examples, store, argmax=argmax)
    return located(each, len(examples), choice(model, examples, argmax=argmax), iou, quiet=quiet)


def choice(model: PhraseGrounder, examples: Dataset, *, argmax: bool = False) -> str:
    """How boxes are chosen, for the signature of a score."""
    if argmax:
        return "argmax"
    pixels = any(map(has_pixels, examples))
    worn = "bodies" if pixels and model.joints else "garments"
    return f"overlap+groups+{worn}" + ("+colours" if pixels else "")


def located(
    each: Iterable[list[Query]], images: int, choice: str, iou: float = 0.5, *, quiet: bool = True
) -> dict[str, Localisation]:
    """How well phrases were found: by `any` of their boxes, and by the `union`, the box around all. See `choice`."""
    asked = [query for some in track(each, "images", images, quiet=quiet) for query in some]
    found = {
        "any": localise(asked, "any", iou, continuous=True),
        "union": localise(asked, "union", iou, continuous=True),
    }
    return {truth: replace(one, fields={**one.fields, "choice": choice}) for truth, one in found.items()}
