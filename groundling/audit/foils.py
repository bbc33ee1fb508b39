"""Foils: captions in which one noun was replaced by another that is not in the photo. Does a grounder see which?

A foil noun heads phrases of the same Entities type (people, clothing, animals, ...) in captions of other photos, has
the same number (dog, dogs), and none of the photo's captions has it, nor a kind of it, nor what it is a kind of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from random import Random

import numpy as np

from groundling.audit.auditor import Auditor
from groundling.audit.verdicts import CANNOT_TELL, GROUNDED, NOT_THERE
from groundling.evaluation.evidence import phrases_of
from groundling.metrics.agreement import area_under_curve
from groundling.metrics.calibration import expected_calibration_error, reliability
from groundling.metrics.statistics import Array, Statistics, mean_statistics, signature
from groundling.progress import track
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.text.absent_nouns import Noun, NounsOf
from groundling.text.classes import head_noun
from groundling.text.wordnet import wordnet
from groundling.types import Example

Words = tuple[str, ...]
RANKS = (100, 300, 1000, 2000)  # of words by frequency, for the table


@dataclass(frozen=True)
class Foil:
    """A phrase of a caption, the same with its noun replaced, and the other phrases of the caption."""

    image: str
    kind: str
    true: Words
    foil: Words
    head: int  # the noun's place in both
    lemmas: tuple[str, str]  # of the noun and of the one in its place
    others: tuple[tuple[Words, str], ...]  # each with its noun


@dataclass(frozen=True)
class FoilScores:
    """What a grounder makes of foils."""

    foils: tuple[Foil, ...]
    true: Array  # (n,) evidence of the phrases that were replaced
    false: Array  # (n,) and of those in their place
    lowest_other: Array  # (n,) the lowest evidence among the caption's other phrases; inf where there are none
    verdicts: tuple[tuple[str, str], ...]  # of true and false phrases
    in_captions: Array  # (n, 2) evidence of both as nouns of captions, by which verdicts are given

    def statistics(self) -> list[Statistics]:
        """Means over foils; equal evidence counts half."""
        ids = tuple(f"{i}" for i in range(len(self.foils)))
        pair = (self.true > self.false) + 0.5 * (self.true == self.false)
        some = np.isfinite(self.lowest_other)
        lowest = (self.false < self.lowest_other)[some]
        chance = np.array([1 / (1 + len(foil.others)) for foil in self.foils])[some]
        kept = tuple(id for id, one in zip(ids, some, strict=True) if one)
        return [
            mean_statistics(
                "pair_accuracy", signature("pair_accuracy", foils="entities-type"), ids, pair.astype(float)
            ),
            mean_statistics("lowest", signature("lowest", foils="entities-type"), kept, lowest.astype(float)),
            mean_statistics("lowest_by_chance", signature("lowest_by_chance"), kept, chance),
        ]

    def numbers(self) -> dict[str, float]:
        """Area under the curve, and the expected calibration error."""
        truth = np.concatenate([np.ones(len(self.foils)), np.zeros(len(self.foils))])
        curve = reliability(np.concatenate([self.true, self.false]), truth)
        return {"auc": area_under_curve(self.true, self.false), "ece": expected_calibration_error(curve)}


def make_foils(examples: Iterable[Example], seed: int = 0) -> list[Foil]:
    """One foil for each caption of which one can be made."""
    examples = list(examples)
    pool = _pool(examples)
    draw = Random(seed)
    found = (_foil(example, i, pool, draw) for example in examples for i in range(len(example.captions)))
    return [foil for foil in found if foil is not None]


def _pool(examples: Sequence[Example]) -> dict[tuple[str, str], list[Noun]]:
    """(type, tag) -> nouns, as often as they head a phrase."""
    pool: dict[tuple[str, str], list[Noun]] = {}
    for example in examples:
        for phrase in example.gold:
            caption = example.captions[phrase.caption]
            head = head_noun(caption, phrase.span)
            synset = wordnet().synset(caption.lemmas[head]) if head >= 0 else None
            if synset is not None:
                for kind in phrase.kinds:
                    noun = Noun(caption.tokens[head], caption.lemmas[head], synset)
                    pool.setdefault((kind, caption.tags[head]), []).append(noun)
    return pool


def _foil(example: Example, number: int, pool: dict[tuple[str, str], list[Noun]], draw: Random) -> Foil | None:
    caption = example.captions[number]
    drawn = [
        (phrase, head)
        for phrase in example.gold
        if phrase.caption == number and phrase.kinds and (head := head_noun(caption, phrase.span)) >= 0
    ]
    if not drawn:
        return None
    phrase, head = draw.choice(drawn)
    kind = draw.choice(phrase.kinds)
    other = NounsOf(example.captions).other(pool.get((kind, caption.tags[head]), []), draw)
    asked = phrases_of(caption)
    place = next((one for one in asked if one.start <= head < one.end), None)
    if other is None or place is None:
        return None
    true = caption.tokens[place.start : place.end]
    at = head - place.start
    return Foil(
        example.id,
        kind,
        true,
        (*true[:at], other.word, *true[at + 1 :]),
        at,
        (caption.lemmas[head], other.lemma),
        tuple((caption.tokens[one.start : one.end], caption.tokens[one.head]) for one in asked if one is not place),
    )


# ---------------------------------------------------------------- evaluation


def evaluate(auditor: Auditor, foils: Sequence[Foil], store: Store, *, quiet: bool = True) -> FoilScores:
    """The evidence of every phrase of every foil, and the verdicts on the phrase and its foil."""
    rows, verdicts, in_caption = [], [], []
    of_images = [list(some) for _, some in groupby(foils, key=lambda foil: foil.image)]
    for some in track(of_images, "photos of foils", total=len(of_images), quiet=quiet):
        phrases = [_phrases(auditor, foil) for foil in some]
        found = zip(*_evidence(auditor, store[some[0].image], [*chain.from_iterable(phrases)]), strict=True)
        for foil, asked in zip(some, phrases, strict=True):
            alone, in_captions = zip(*islice(found, len(asked)), strict=True)
            rows.append((alone[0], alone[1], min(alone[4:], default=np.inf)))
            both = [_verdict(auditor, foil, *one) for one in zip(_both(foil), in_captions[2:4], strict=True)]
            verdicts.append((both[0], both[1]))
            in_caption.append(in_captions[2:4])
    true, false, lowest = np.array(rows, float).reshape(-1, 3).T
    return FoilScores(tuple(foils), true, false, lowest, tuple(verdicts), np.array(in_caption, float).reshape(-1, 2))


def _phrases(auditor: Auditor, foil: Foil) -> list[tuple[Words, str]]:
    """With their heads: the true phrase and its foil, both as an audit would look for them, the caption's others."""
    asked = [_asked(auditor, foil, words, lemma) for words, lemma in _both(foil)]
    return [*((words, words[foil.head]) for words in (foil.true, foil.foil, *asked)), *foil.others]


def _evidence(auditor: Auditor, regions: Regions, phrases: Sequence[tuple[Words, str]]) -> list[list[float]]:
    """Of phrases with their heads in an image: of any phrases, and as an audit asks it, of what captions say."""
    grounder, nouns = auditor.grounder, [noun for _, noun in phrases]
    similarity = grounder.rank(regions, [words for words, _ in phrases]).similarity
    both = [grounder.evidence(nouns, similarity, regions.whole, in_caption=in_caption) for in_caption in (False, True)]
    return [[p for p in found if p is not None] for found in both]  # an Auditor's grounder is calibrated: none is None


def _both(foil: Foil) -> list[tuple[Words, str]]:
    """Words and lemma of the true phrase and of its foil."""
    return [(foil.true, foil.lemmas[0]), (foil.foil, foil.lemmas[1])]


def _asked(auditor: Auditor, foil: Foil, words: Words, lemma: str) -> Words:
    """The words that an audit would look for."""
    found = auditor.known.find(words[foil.head], lemma)
    return words if found is None else (*words[: foil.head], found.word, *words[foil.head + 1 :])


def _verdict(auditor: Auditor, foil: Foil, caption: tuple[Words, str], evidence: float) -> str:
    found = auditor.known.find(caption[0][foil.head], caption[1])
    return CANNOT_TELL if found is None else auditor.verdict(found, evidence, None)


def by_frequency(auditor: Auditor, scores: FoilScores) -> list[dict[str, object]]:
    """The verdicts on nouns by how frequent they are in the grounder's vocabulary, true ones and foils."""
    bounds = (0, *RANKS)
    names = [f"{low + 1} to {high}" for low, high in zip(bounds, RANKS, strict=False)]
    rows: list[dict[str, object]] = []
    groups: dict[str, list[tuple[bool, str]]] = {name: [] for name in (*names, f"beyond {RANKS[-1]}", "unknown")}
    for foil, both in zip(scores.foils, scores.verdicts, strict=True):
        for true, words, verdict in ((True, foil.true, both[0]), (False, foil.foil, both[1])):
            groups[_group(auditor.known.rank(words[foil.head]), names)].append((true, verdict))
    for name, members in groups.items():
        row: dict[str, object] = {"rank": name}
        for true, side in ((True, "true"), (False, "foil")):
            some = [verdict for is_true, verdict in members if is_true == true]
            shares = {
                verdict: some.count(verdict) / max(1, len(some)) for verdict in (GROUNDED, NOT_THERE, CANNOT_TELL)
            }
            row[side] = {"n": len(some), **shares}
        rows.append(row)
    return rows


def _group(rank: int | None, names: Sequence[str]) -> str:
    if rank is None:
        return "unknown"
    return next((name for name, high in zip(names, RANKS, strict=True) if rank <= high), f"beyond {RANKS[-1]}")
