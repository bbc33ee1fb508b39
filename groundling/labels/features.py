"""What is known of a box beside its score: from this a calibration tells how likely the box is right.

All of it is cheap, and none of it is learned: how far the next best place is behind, whether the phrases of a thing
agree, whether the detector and the heat maps of words see the noun there, what kind of thing it is, how large the box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from groundling.labels.grounder import Ranked
from groundling.labels.phrases import CaptionPhrase
from groundling.text.labels import Labels
from groundling.text.wordnet import wordnet

KINDS = ("person", "animal", "clothing", "body_part", "vehicle", "way", "geological_formation", "structure", "group")
NAMES = (
    "log_odds",  # of the score
    "similarity",  # of phrases and region, mean over the mentions
    "evidence",  # log-odds that the thing is in the image
    "margin",  # score before the best region elsewhere
    "agreement",  # mean IoU of the box with the best box of each mention
    "mentions",  # log of their number
    "detector",  # probability of the noun's class in the region
    "detector_behind",  # how far that is behind the best region of this class
    "detector_knows",  # does the detector have a class for the noun?
    "word",  # how well the region covers the heat map of the noun
    "word_behind",  # how far that is behind the best region
    "side",  # root of the box's share of the image
    "side_squared",
    "several",  # has the thing several boxes?
    "rivals",  # log of 1 + other things that a caption tells apart from it
    *KINDS,
)
WORD = "word:"  # begins the names of labels that are words of captions
SAME_PLACE = 0.5  # IoU
CLOSEST = 1e-3  # to 0 and 1, of what log-odds are taken of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Chosen:
    """The regions that were chosen for one thing of an image."""

    members: tuple[int, ...]  # the phrases that name it, as rows of `Ranked`
    scores: Array  # (R,), how likely each region is right, mean over these phrases
    regions: tuple[int, ...]  # the surest first
    rivals: int  # other things that a caption tells apart from it


def describe(ranked: Ranked, named: CaptionPhrase, chosen: Chosen, overlap: Array) -> list[tuple[float, ...]]:
    """The features of each chosen region, as NAMES has them; `overlap` (R, R) is the IoU of regions."""
    evidence = mean_evidence(ranked, chosen)
    detector, word = label_scores(ranked, named.head)
    of_thing = {
        "evidence": 0.0 if evidence is None else log_odds(evidence),
        "mentions": math.log(len(chosen.members)),
        "detector_knows": float(detector is not None),
        "several": float(len(chosen.regions) > 1),
        "rivals": math.log1p(chosen.rivals),
    } | _kinds(named.synset)
    seen = {"detector": detector, "word": word}
    rows = [of_thing | _of_region(ranked, chosen, overlap, at) | _labelled(seen, at) for at in chosen.regions]
    return [tuple(row[name] for name in NAMES) for row in rows]


def _of_region(ranked: Ranked, chosen: Chosen, overlap: Array, region: int) -> dict[str, float]:
    members = list(chosen.members)
    best = ranked.overlap[members].argmax(-1)
    elsewhere = chosen.scores[overlap[region] < SAME_PLACE].max(initial=0.0)
    left, top, right, bottom = ranked.boxes[region]
    share = (right - left) * (bottom - top) / (ranked.size[0] * ranked.size[1])
    return {
        "log_odds": log_odds(chosen.scores[region]),
        "similarity": float(ranked.similarity[members, region].mean()),
        "margin": float(chosen.scores[region] - elsewhere),
        "agreement": float(overlap[region, best].mean()),
        "side": math.sqrt(share),
        "side_squared": float(share),
    }


def _labelled(seen: dict[str, Array | None], region: int) -> dict[str, float]:
    """What the labels of a region tell of the noun, and how far it is behind the region that shows the noun best."""
    row = {}
    for name, scores in seen.items():
        row[name] = 0.0 if scores is None else float(scores[region])
        row[f"{name}_behind"] = 0.0 if scores is None else float(scores.max() - scores[region])
    return row


def label_scores(ranked: Ranked, noun: str) -> tuple[Array | None, Array | None]:
    """(R,) each: the detector's probability of the noun's class, and the fit of the noun's heat map.

    None where the detector has no such class, the source no such word.
    """
    at_class, at_word = _columns(ranked.class_names, noun)
    return _score_of(ranked, at_class), _score_of(ranked, at_word)


def _score_of(ranked: Ranked, label: int) -> Array | None:
    """(R,): 0 where a region does not have the label among its likeliest."""
    return None if label < 0 else np.where(ranked.labels == label, ranked.label_scores, 0.0).max(-1, initial=0.0)


@lru_cache(maxsize=50_000)
def _columns(names: tuple[str, ...], noun: str) -> tuple[int, int]:
    """The numbers of the class and of the word that stand for a noun; −1 where there is none."""
    classes, words = _vocabulary(names)
    found = classes.find(noun) if noun else None
    return found.label if found else -1, words.get(noun, -1)


@lru_cache(maxsize=4)
def _vocabulary(names: tuple[str, ...]) -> tuple[Labels, dict[str, int]]:
    words = {name.removeprefix(WORD): i for i, name in enumerate(names) if name.startswith(WORD)}
    return Labels(["" if name.startswith(WORD) else name for name in names]), words


def mean_evidence(ranked: Ranked, chosen: Chosen) -> float | None:
    """How likely it is that the thing is in the image, mean over its phrases."""
    known = [p for i in chosen.members if (p := ranked.evidence[i]) is not None]
    return sum(known) / len(known) if known else None


@lru_cache(maxsize=50_000)
def _kinds(synset: int | None) -> dict[str, float]:
    """1 for each of KINDS that the noun is a kind of."""
    above = set() if synset is None else set(wordnet().kinds(synset))
    return {kind: float(wordnet().synset(kind) in above) for kind in KINDS}


def log_odds(p: float) -> float:
    inside = min(max(float(p), CLOSEST), 1 - CLOSEST)
    return math.log(inside / (1 - inside))
