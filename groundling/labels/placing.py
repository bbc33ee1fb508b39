"""Where the things of an image are: one box for one thing, several for several, never the same box for two.

The score of a region for a thing is the mean, over the phrases that name it, of how likely the region is right. Things
of the same noun that one caption tells apart ("a man and another man") get different boxes, the surer one first. A
plural phrase gets the regions that the detector is sure are of the class of its noun and that hardly overlap; where
there are not two of them, its best region, as any other phrase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.labels.features import Chosen, describe, label_scores, mean_evidence
from groundling.labels.grounder import Ranked
from groundling.labels.merge import closeness
from groundling.labels.phrases import ALONE, CaptionPhrase, most_telling
from groundling.types import Box

SAME_BOX = 0.5  # IoU from which two boxes are of one thing
APART = 0.3  # IoU, and
INSIDE = 0.7  # share of the smaller box inside the other, from which an instance is not another one
SURE = 0.4  # probability from which the detector's class of a region counts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Placed:
    """The boxes of one thing, the best first."""

    boxes: tuple[Box, ...]
    scores: tuple[float, ...]
    features: tuple[tuple[float, ...], ...]  # of each box, as `features.NAMES` has them
    evidence: float | None


def best_overlaps(ranked: Ranked) -> Array:
    """(P, P): IoU of the best boxes of each pair of phrases."""
    best = ranked.boxes[ranked.overlap.argmax(-1)]
    return iou_of_arrays(best, best)


def place(ranked: Ranked, phrases: Sequence[CaptionPhrase], things: Sequence[Sequence[int]]) -> list[Placed]:
    """The place of each thing, given as indices of the phrases that name it."""
    scores = np.array([ranked.overlap[list(members)].mean(0) for members in things])  # (things, R)
    overlap = iou_of_arrays(ranked.boxes, ranked.boxes)
    rivals = {t: {o for o in range(len(things)) if o != t and _told_apart(phrases, things[t], things[o])}
              for t in range(len(things))}  # fmt: skip
    taken: dict[int, list[int]] = {}  # thing -> its regions
    for thing in sorted(rivals, key=lambda t: (-scores[t].max(), t)):
        free = np.ones(len(ranked.boxes), bool)
        for other in rivals[thing] & taken.keys():
            free &= (overlap[taken[other]] < SAME_BOX).all(0)
        free = free if free.any() else ~free
        first = phrases[things[thing][0]]
        taken[thing] = _chosen(np.where(free, scores[thing], -1.0), first, ranked, overlap)
    return [
        _placed(ranked, phrases, Chosen(tuple(things[t]), scores[t], tuple(taken[t]), len(rivals[t])), overlap)
        for t in range(len(things))
    ]


def _chosen(scores: Array, phrase: CaptionPhrase, ranked: Ranked, overlap: Array) -> list[int]:
    """The regions of a thing: the best one, or instances of it; the surest first."""
    best = int(scores.argmax())
    if phrase.count == ALONE:
        return [best]
    detected, _ = label_scores(ranked, phrase.head)
    if detected is None:
        return [best]
    alike = detected >= np.maximum(SURE, ranked.label_scores[:, 0])  # it is the likeliest class, too
    found: list[int] = []
    for region in np.argsort(-np.where(alike, detected, -1.0), kind="stable").tolist():
        if not alike[region] or scores[region] < 0 or len(found) == phrase.count:
            break
        if all(_another(ranked.boxes, overlap, region, other) for other in found):
            found.append(region)
    return sorted(found, key=lambda region: -scores[region]) if len(found) > 1 else [best]


def _another(boxes: NDArray[np.floating], overlap: Array, region: int, other: int) -> bool:
    """Is a region another instance, neither the same as one that was found nor a part of it?"""
    if overlap[region, other] >= APART:
        return False
    pair = boxes[[region, other]]
    low, high = pair[:, :2].max(0), pair[:, 2:].min(0)
    shared = (high - low).clip(0).prod()
    smaller = (pair[:, 2:] - pair[:, :2]).prod(-1).min()
    return bool(shared < INSIDE * smaller)


def _told_apart(phrases: Sequence[CaptionPhrase], some: Sequence[int], others: Sequence[int]) -> bool:
    """Does a caption name both, and could both be the same by their nouns?"""
    return any(
        phrases[i].caption == phrases[j].caption and closeness(phrases[i], phrases[j]) for i in some for j in others
    )


def _placed(ranked: Ranked, phrases: Sequence[CaptionPhrase], chosen: Chosen, overlap: Array) -> Placed:
    named = most_telling([phrases[i] for i in chosen.members])
    return Placed(
        tuple(_inside(ranked.boxes[region], ranked.size) for region in chosen.regions),
        tuple(float(chosen.scores[region]) for region in chosen.regions),
        tuple(describe(ranked, named, chosen, overlap)),
        mean_evidence(ranked, chosen),
    )


def _inside(box: Array, size: tuple[int, int]) -> Box:
    left, top, right, bottom = box.tolist()
    width, height = size
    return max(0.0, left), max(0.0, top), min(float(width), right), min(float(height), bottom)
