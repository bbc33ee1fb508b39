"""How well an image bears out a caption, phrase by phrase. Audit, foils and scores of captions all ask here.

    from groundling import load_grounder
    from groundling.evaluation import evidence

    grounder = load_grounder()
    caption = evidence.parse(["a man on a horse"])[0]
    for one in evidence.caption_evidence(grounder, grounder.regions("photo.jpg"), caption):
        print(one.phrase, one.evidence, one.likely[0].box)

`evidence` is the probability that the phrase is in the image (`inference.evidence`); an audit asks for that of nouns
of captions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.errors import DataError, GroundlingError
from groundling.inference.phrases import BaseGrounder
from groundling.regions.fingerprints import require
from groundling.text import words
from groundling.text.annotate import annotate
from groundling.text.classes import head_noun
from groundling.text.noun_phrases import is_word, joined, with_stops
from groundling.types import Box, Caption, Span

if TYPE_CHECKING:
    from groundling.inference.grounder import PhraseGrounder
    from groundling.regions.store import Store
    from groundling.tensors import Regions

PLACES = 5  # likely places of a phrase that are told
HALF = 0.5  # of the best place's score that another likely one has at least; and the overlap of two that are one
KEPT = 32  # images whose regions are in memory, so that the captions of one need them once


@dataclass(frozen=True)
class Likely:
    """A place where a phrase may be; `score` is 0 to 1, how likely this box covers half of it, if it is there."""

    box: Box
    score: float


@dataclass(frozen=True)
class PhraseEvidence:
    """A noun phrase of a caption, and the evidence for it in the image."""

    phrase: str
    span: Span  # characters of the caption
    noun: str  # its head, as the caption has it
    lemma: str
    tag: str  # Penn tag of the noun
    tokens: tuple[str, ...]  # the words that were looked for
    similarity: float  # of the best region to the phrase, -1 to 1; -1 where the image has no region
    evidence: float | None  # probability that it is in the image; None where the grounder was not calibrated
    likely: tuple[Likely, ...]  # best first


@dataclass(frozen=True)
class PhraseTokens:
    """A noun phrase of a caption: its tokens and its head."""

    start: int  # tokens of the caption
    end: int
    head: int


Substitute = Callable[[str, str], str | None]  # noun and lemma -> the word to look for instead; None: as it is


def parse(texts: Sequence[str], stops: bool = False) -> list[Caption]:
    """Captions with tags, lemmas and noun phrases. `stops`: commas and other stops are tokens, and end phrases."""
    return annotate([with_stops(text) if stops else words.caption(text) for text in texts])


def phrases_of(caption: Caption) -> list[PhraseTokens]:
    """The noun phrases of a caption that have a noun: "it" and "the other" name nothing that can be looked for."""
    phrases = [(start, end, head_noun(caption, (start, end))) for start, end in joined(caption)]
    return [PhraseTokens(start, end, head) for start, end, head in phrases if head >= 0]


def caption_evidence(
    grounder: BaseGrounder,
    regions: Any,
    caption: Caption,
    substitute: Substitute = lambda noun, lemma: None,
    *,
    in_caption: bool = False,
) -> tuple[PhraseEvidence, ...]:
    """The evidence of each noun phrase of a parsed caption in an image, given by its regions as the grounder has them.

    `substitute` may name another word to look for in place of a noun that the grounder does not know. `in_caption`: see
    `PhraseGrounder.evidence`.
    """
    return evidence_with_words(grounder, regions, caption, (), substitute, in_caption=in_caption)[0]


def evidence_with_words(
    grounder: BaseGrounder,
    regions: Any,
    caption: Caption,
    words: Sequence[str],
    substitute: Substitute = lambda noun, lemma: None,
    *,
    in_caption: bool = False,
) -> tuple[tuple[PhraseEvidence, ...], Sequence[float | None]]:
    """As `caption_evidence`, and the evidence of each of these words alone; the regions are compared once with all."""
    asked = phrases_of(caption)
    if not (asked or words):
        return (), ()
    phrases = [_tokens(caption, one, substitute) for one in asked]
    wanted = [*(tokens for tokens, _ in phrases), *((word,) for word in words)]
    nouns = [*(tokens[head] for tokens, head in phrases), *words]
    found = grounder.locate(regions, wanted, nouns, in_caption=in_caption)
    best, likely = found.similarity.max(1, initial=-1.0).tolist(), _likely(found.boxes, found.overlap[: len(asked)])
    if len(found.boxes) > found.similarity.shape[1]:  # joints are sure of one place: what words tell alone may be, too
        plain = grounder.compare(regions, wanted[: len(asked)], [""] * len(asked), ())
        likely = list(map(_and_others, likely, _likely(plain.boxes, plain.overlap)))
    grounded = tuple(
        _evidence(caption, asked[i], phrases[i][0], best[i], found.evidence[i], likely[i]) for i in range(len(asked))
    )
    return grounded, found.evidence[len(asked) :]


def _tokens(caption: Caption, asked: PhraseTokens, substitute: Substitute) -> tuple[tuple[str, ...], int]:
    """The words of a phrase, its noun perhaps replaced, and which of them it is."""
    tokens = {i: token for i in range(asked.start, asked.end) if is_word(token := caption.tokens[i])}  # no stops
    tokens[asked.head] = substitute(tokens[asked.head], caption.lemmas[asked.head]) or tokens[asked.head]
    return tuple(tokens.values()), list(tokens).index(asked.head)


def _evidence(
    caption: Caption,
    asked: PhraseTokens,
    tokens: tuple[str, ...],
    similarity: float,
    evidence: float | None,
    likely: tuple[Likely, ...],
) -> PhraseEvidence:
    span = caption.spans[asked.start][0], caption.spans[asked.end - 1][1]
    noun, lemma, tag = caption.tokens[asked.head], caption.lemmas[asked.head], caption.tags[asked.head]
    return PhraseEvidence(caption.text[slice(*span)], span, noun, lemma, tag, tokens, similarity, evidence, likely)


def _likely(boxes: NDArray[np.floating], overlap: NDArray[np.floating]) -> list[tuple[Likely, ...]]:
    """For each phrase the best regions, no two of them the same place. boxes: (R, 4); overlap: (P, R) of `Located`."""
    if not overlap.size or overlap.max() < 0:
        return [()] * len(overlap)
    likely = []
    for scores in overlap:
        order = np.argsort(-scores, kind="stable")[: 4 * PLACES]
        same = iou_of_arrays(boxes[order], boxes[order]) > HALF
        kept: list[int] = []
        for i, score in enumerate(scores[order]):
            if len(kept) < PLACES and score >= HALF * scores[order[0]] and not same[i, kept].any():
                kept.append(i)
        likely.append(tuple(Likely(_box(boxes[order[i]].tolist()), float(scores[order[i]])) for i in kept))
    return likely


def _and_others(places: tuple[Likely, ...], others: tuple[Likely, ...]) -> tuple[Likely, ...]:
    """The places, and after them those of the others that are none of these, as many as are kept."""
    boxes = np.array([one.box for one in places], np.float32).reshape(-1, 4)
    apart = [one for one in others if (iou_of_arrays(np.array([one.box], np.float32), boxes) <= HALF).all()]
    return (*places, *apart)[:PLACES]


def _box(values: Sequence[float]) -> Box:
    left, top, right, bottom = values
    return left, top, right, bottom


# ---------------------------------------------------------------- the regions of images by name


def regions_of(
    grounder: PhraseGrounder, find: Callable[[str], Path] | None, store: Store | None
) -> Callable[[str], Regions]:
    """What gives the regions of an image by its name: those of a store that has it, else made from the file that
    `find` finds."""
    if find is None and store is None:
        raise GroundlingError("no images: give --images FOLDER, or --regions STORE")
    if store is not None:
        require(store.fingerprint, grounder.model.fingerprint)

    @lru_cache(maxsize=KEPT)
    def regions(name: str) -> Regions:
        stored = store is not None and next((id for id in _ids(name) if id in store), None)
        if store is not None and stored:
            return store[stored]
        if find is None:
            raise DataError(f"{store.path if store else ''} has no regions of {name!r}: give --images FOLDER, too")
        return grounder.regions(find(name))

    return regions


def _ids(name: str) -> tuple[str, str, str]:
    """What an image may be called in a store."""
    return name, Path(name).name, Path(name).stem
