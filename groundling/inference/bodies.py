"""Where parts of bodies are, and what people wear: from the joints of the persons in a picture.

"A face", "his hand", "a red shirt", "glasses": such things are small, and seldom a region of their own. A published
network finds 17 joints of a person (`regions.sources._keypoints`); a part is a box around some of these, wider by fixed
shares of the height of a head (PARTS). Persons h are the regions that are likeliest "person" by the grounder,

    q_h ∝ exp(s_h / τ) √area_h

and do not overlap. A region r and the part e of person h fit a phrase by

    f_r = c (s_r + w max_h IoU(r, e_h) q_h / max q)        f_e = c (max {s_r : IoU(r, e) ≥ NEAR} + w q_h / max q)

(the median of s where no region is near), in place of s of eq. 1 where a box is chosen. So parts are boxes that may be
chosen beside the regions. c makes the probability of such a box what it is: w alone would make it too sure. w, c, LEAST
and the shares were chosen on 1,500 training images of Flickr8k, by boxes that no weights learned from. Without pixels,
garments are looked for by the boxes of persons alone (`inference.garments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling.boxes import iou_of_arrays, soft_match_of_arrays
from groundling.text.vocab import last_word
from groundling.types import GroundedCaption

Floats = NDArray[np.float32]

WEIGHT, SOFTER = 0.6, 0.53  # w, c
NEAR = 0.4  # IoU from which a region tells how well a part fits
PERSONS, LEAST = 6, 0.0  # at most, of at least this similarity with "person"
UNLIKELY = 3.0  # less likely by this, in log q, than the likeliest, is no person
APART = 0.6  # IoU from which two regions are one person

FACE = (0, 1, 2, 3, 4)  # nose, eyes, ears
NOSE, EYES, EARS, SHOULDERS, ELBOWS, WRISTS = (0,), (1, 2), (3, 4), (5, 6), (7, 8), (9, 10)
HIPS, KNEES, ANKLES, HANDS = (11, 12), (13, 14), (15, 16), (17, 18)
HAND = 0.35  # from a wrist on to the middle of the hand, in lengths of the forearm


class Part(NamedTuple):
    """A box around joints, or around the middle of them; it goes beyond these by so many heights of a head."""

    joints: Sequence[int]
    side: float
    above: float
    below: float
    middle: bool = False
    other: Sequence[int] = ()  # the same on the other side of the body: the one that is seen better counts


def _left_and_right(one: Sequence[Sequence[int]], side: float, above: float, below: float) -> Part:
    left, right = (tuple(pair[i] for pair in one) for i in (0, 1))
    return Part(left, side, above, below, other=right)


_HAIR = Part(FACE, 0.65, 0.8, 0.5, middle=True)
_CAP = Part(FACE, 0.65, 0.85, 0.15, middle=True)
_GLASSES = Part(EYES, 0.38, 0.14, 0.14, middle=True)
_UPPER = Part((*SHOULDERS, *HIPS, *ELBOWS), 0.25, 0.35, 0.1)
_COAT = Part((*SHOULDERS, *HIPS, *ELBOWS, *WRISTS), 0.25, 0.4, 0.3)
_TROUSERS = Part((*HIPS, *KNEES, *ANKLES), 0.3, 0.3, 0.1)
_SHORTS = Part((*HIPS, *KNEES), 0.35, 0.35, 0)
_SKIRT = Part((*HIPS, *KNEES), 0.35, 0.3, 0.1)
_SWIMSUIT = Part((*SHOULDERS, *HIPS), 0.2, 0.2, 0.4)
_DRESS = Part((*SHOULDERS, *HIPS, *KNEES), 0.3, 0.3, 0.2)
_CLOTHES = Part((*SHOULDERS, *ELBOWS, *HIPS, *KNEES, *ANKLES), 0.25, 0.35, 0.1)
_SHOES = Part(ANKLES, 0.4, 0.45, 0.45)
_HAND = Part((HANDS[0],), 0.35, 0.35, 0.35, other=(HANDS[1],))
_BEARD = Part(NOSE, 0.4, 0.1, 0.55, middle=True)

_WORDS: dict[Part, str] = {
    Part(FACE, 0.5, 0.65, 0.6, middle=True): "head",
    Part(FACE, 0.45, 0.5, 0.6, middle=True): "face mask",
    _HAIR: "hair haircut hairdo hairstyle mohawk braids dreadlocks wig",
    _CAP: "cap beanie",
    Part(FACE, 0.65, 0.9, 0.3, middle=True): "helmet",
    _GLASSES: "glasses sunglasses goggles eyeglasses",
    _BEARD: "beard goatee",
    _HAND: "hand hands glove gloves fist",
    _left_and_right((SHOULDERS, ELBOWS, WRISTS), 0.25, 0.2, 0.25): "arm arms",
    Part((*HIPS, *KNEES, *ANKLES), 0.3, 0, 0.3): "legs",
    _left_and_right((HIPS, KNEES, ANKLES), 0.3, 0, 0.3): "leg",
    _SHOES: "feet shoes boots sneakers sandals socks",
    _UPPER: "shirt t-shirt tshirt tee-shirt sweater sweatshirt hoodie vest blouse jersey top",
    _COAT: "jacket coat",
    _TROUSERS: "pants jeans trousers",
    _SHORTS: "shorts trunks",
    _SKIRT: "skirt",
    _SWIMSUIT: "swimsuit bikini",
    _DRESS: "dress gown robe bathrobe",
    _CLOTHES: "uniform suit outfit clothes clothing attire wetsuit snowsuit overalls pajamas",
}
_PLURAL_TOO = {_UPPER, _COAT, _SKIRT}  # "shirts" are looked for on one person, "caps" on several
PARTS = {
    form: part
    for part, words in _WORDS.items()
    for word in words.split()
    for form in ((word, f"{word}s") if part in _PLURAL_TOO else (word,))
}


class Bodies(NamedTuple):
    """The N persons of a picture."""

    joints: Floats  # (N, 19, 2), xy in pixels of the boxes; the last two are the middles of the hands
    seen: Floats  # (N, 19), how well each joint is seen
    likely: Floats  # (N,), q / max q
    size: tuple[float, float]  # of the picture, in pixels of the boxes

    def boxes(self, part: Part) -> Floats:
        """(N, 4): where the part is of each person."""
        found = np.zeros((len(self.likely), 4), np.float32)
        head = heads(self.joints)
        for i, (xy, seen) in enumerate(zip(self.joints, self.seen, strict=True)):
            chosen = part.joints
            if part.other and seen[[*part.other]].mean() > seen[[*chosen]].mean():
                chosen = part.other
            at = xy[[*chosen]]
            low, high = (at.mean(0), at.mean(0)) if part.middle else (at.min(0), at.max(0))
            wider = head[i] * np.array([part.side, part.above, part.side, part.below], np.float32)
            found[i] = [*(low - wider[:2]), *(high + wider[2:])]
        return found.clip(0, np.array([*self.size, *self.size], np.float32))


def heads(joints: Floats) -> Floats:
    """(N, 19, 2) -> (N,): how high a head is, by what is longest for its kind: trunk, shoulders, from ear to ear."""

    def across(one: Floats, other: Floats) -> Floats:
        return np.asarray(np.linalg.norm(one - other, axis=-1))

    trunk = across(joints[:, SHOULDERS].mean(1), joints[:, HIPS].mean(1))
    shoulders, ears = (across(joints[:, a], joints[:, b]) for a, b in (SHOULDERS, EARS))
    return np.asarray(np.maximum.reduce([trunk / 2.3, shoulders / 1.7, ears / 0.7]))


def bodies_in(
    picture: Image.Image, size: tuple[float, float], boxes: Floats, person: Floats, temperature: float
) -> Bodies:
    """The persons of a picture, which may be a smaller copy of an image of this size. boxes: (R, 4) of the regions, in
    pixels of that image. person: (R,), similarity with "person"."""
    from groundling.regions.sources._keypoints import keypoints

    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    likely = person / np.float32(temperature) + np.log(np.maximum(area, 1)) / 2
    chosen: list[int] = []
    for r in np.argsort(-likely, kind="stable"):
        if len(chosen) == PERSONS or likely[r] < likely.max() - UNLIKELY:
            break
        if person[r] < LEAST:
            continue
        if not chosen or iou_of_arrays(boxes[[r]], boxes[chosen]).max() < APART:
            chosen.append(int(r))
    if not chosen:
        return Bodies(np.zeros((0, 19, 2), np.float32), np.zeros((0, 19), np.float32), np.zeros(0, np.float32), size)
    scale = np.array([picture.width, picture.height], np.float32) / np.array(size, np.float32)
    found = keypoints()(np.asarray(picture.convert("RGB")), boxes[chosen] * np.tile(scale, 2))
    xy, seen = found[..., :2] / scale, found[..., 2]
    hands = xy[:, WRISTS] + HAND * (xy[:, WRISTS] - xy[:, ELBOWS])
    joints = np.concatenate([xy, hands], 1), np.concatenate([seen, seen[:, WRISTS]], 1)
    return Bodies(*joints, np.exp(likely[chosen] - likely[chosen].max()), size)


def placed(caption: GroundedCaption, bodies: Bodies, temperature: float) -> GroundedCaption:
    """A caption of a picture whose parts of bodies are where joints tell. s of a region is τ log of its attention, the
    score of a link how likely its box is right."""
    links, attention = [], {one.token: one for one in caption.attention}
    for link in caption.links:
        noun, seen = last_word(caption.word(link)), attention.get(link.token)
        if noun in PARTS and seen is not None and seen.boxes and len(bodies.likely):
            boxes, weights = np.array(seen.boxes, np.float32), np.array(seen.weights, np.float32)
            every, fit = with_parts(np.float32(temperature) * np.log(weights)[None], boxes, [noun], bodies)
            likely = np.exp((fit[0] - fit[0].max()) / np.float32(temperature))
            found = likely / likely.sum() @ soft_match_of_arrays(every)
            left, top, right, bottom = every[found.argmax()].tolist()
            link = replace(link, box=(left, top, right, bottom), score=min(1.0, float(found.max())))
        links.append(link)
    return replace(caption, links=tuple(links))


def with_parts(fit: Floats, boxes: Floats, nouns: Sequence[str], bodies: Bodies) -> tuple[Floats, Floats]:
    """The boxes that may be chosen, (R + E, 4), and how well each phrase fits each, (P, R + E): −inf for parts that it
    does not name. fit: (P, R), of the regions. nouns: the heads of the phrases."""
    fit, every = fit.copy(), [boxes]
    added: list[tuple[int, Floats]] = []
    for i, noun in enumerate(map(last_word, nouns)):
        if noun not in PARTS or not len(bodies.likely):
            continue
        places = bodies.boxes(PARTS[noun])
        shared = iou_of_arrays(boxes, places)  # (R, N)
        near = np.where(shared >= NEAR, fit[i][:, None], -np.inf).max(0)
        near = np.where(np.isfinite(near), near, np.median(fit[i][np.isfinite(fit[i])]))
        fit[i] = SOFTER * (fit[i] + WEIGHT * (shared * bodies.likely).max(1))
        seen = (places[:, 2:] - places[:, :2]).min(1) >= 1  # a part beyond the edge of the picture is no box
        added.append((i, np.where(seen, SOFTER * (near + WEIGHT * bodies.likely), -np.inf)))
        every.append(places)
    wide = np.full((len(fit), sum(map(len, every))), -np.inf, np.float32)
    wide[:, : len(boxes)] = fit
    at = len(boxes)
    for i, values in added:
        wide[i, at : at + len(values)] = values
        at += len(values)
    return np.concatenate(every), wide
