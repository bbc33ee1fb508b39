"""The score of a region x for a phrase y by a detector:  Σ_z p(y, z) p(z | x),  eq. 3 of Wang et al., CVPR 2021.

p(y, z) is 1 for the class that the head noun of the phrase leads to (text/labels.py), p(z | x) the detector's score of
that class. A class of the noun's own name counts before all else, and in a detector that has a class for clothing, such
as one of Open Images, so does the class of a more general noun: a sweater is its clothing, as in the paper.
Detectors have no names for most of what surrounds things, most of them none for what people wear, and none for many
things at once. Nouns that WordNet knows as such have a place that follows from the boxes that there are:
 · surroundings (field, water, room): a region of area a (that of the image is 1) which is a thing with probability p
   counts a (1 − p): the background is large and nothing in particular.
 · ways and shores (street, path, beach): it counts IoU (1 − p), of it and the lower part of the image.
 · what is worn: a shirt is about the upper half of a person, trousers are the lower one, a hat is at the top, and
   who is "in black" wears it all over. A region counts IoU · p, of it and that part of a person of probability p.
 · a crowd or a team: a region counts IoU · p, of it and the box around all of the class that the detector finds, p
   being the greatest of their probabilities.
Labels that are words of captions ("word:shirt"), which a region source may add, are left aside: as places of phrases
they were worse than these rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from groundling.boxes import area, iou, union
from groundling.regions.fingerprints import WORD
from groundling.tensors import Regions
from groundling.text.labels import Labels
from groundling.text.singular import singular
from groundling.text.wordnet import wordnet
from groundling.types import Box

SURE = 0.3  # probability from which something counts for its parts, and for a group
NONE, SURROUNDINGS, BELOW = -1, -2, -7  # classes beside those of the detector; parts of a person are below
PARTS: dict[int, tuple[tuple[str, ...], Box]] = {  # nouns with all their kinds, and where in a person's box they are
    -3: (
        ("headdress", "helmet", "head", "face", "hair", "spectacles", "beard", "goggles", "mask"),
        (0.2, 0, 0.8, 0.25),
    ),
    -4: (("shirt", "overgarment", "sweater", "vest", "blouse", "jersey", "top"), (0.05, 0.1, 0.95, 0.65)),
    -5: (("trouser", "skirt", "bloomers", "leg"), (0.1, 0.45, 0.9, 1)),
    -6: (("clothing", "color", "outfit"), (0.05, 0.12, 0.95, 0.95)),
}
AROUND = (
    *("location", "geological_formation", "body_of_water", "water", "soil", "land", "room", "building", "atmosphere"),
    *("vegetation", "horizontal_surface", "grass", "wall", "snow", "pool", "tree", "rock", "fence", "swing", "wave"),
    *("dirt", "mud", "yard", "puddle", "stage"),
)
GROUND = ("street", "road", "path", "sidewalk", "beach", "ramp", "river", "track", "sand", "shore", "bank", "runway")
LOWER: Box = (0, 0.42, 1, 1)  # where the ground is, the image being the unit square
BALLS = ("basketball", "football", "baseball", "softball", "volleyball")  # WordNet has the game as their first meaning
PEOPLE = ("gathering",)  # with all its kinds, and the words below: persons
GROUP = ("crowd", "team", "band")  # words of a phrase that name many things as one
SOMEONE = (  # persons, though WordNet does not say so, or thinks of animals and things first
    *("one", "other", "another", "others", "he", "she", "him", "her", "they", "them", "someone", "somebody"),
    *("group", "family", "bunch", "male", "female", "fan", "climber", "driver", "racer"),
)
UNUSED = (  # names among the first 90 of COCO's list that nobody drew boxes for
    "street sign",
    "hat",
    "shoe",
    "eye glasses",
    "plate",
    "mirror",
    "window",
    "desk",
    "door",
    "blender",
)
AGENT = ("er", "ers", "ist", "ists")  # endings of nouns for who does something ("kayaker")


@dataclass(frozen=True)
class PseudoLabels:
    """Classes of the words of a vocabulary, and which of them name a group."""

    class_of: Tensor  # (V,) int64
    groups: Tensor  # (V,) bool
    person: int  # the detector's class of that name, or NONE
    detected: int  # labels from this one on are words

    @staticmethod
    def of(words: Sequence[str], names: Sequence[str]) -> PseudoLabels:
        """`names`: the labels of the regions, classes of a detector and words."""
        detected = sum(not name.startswith(WORD) for name in names)
        labels = Labels(names[:detected])
        match = labels.find("person")
        person = match.label if match else NONE
        classes = [_class(word, labels, person) for word in words]
        return PseudoLabels(torch.tensor(classes), torch.tensor([word in GROUP for word in words]), person, detected)

    def evidence(
        self, regions: Regions, image: Tensor, label: Tensor, group: Tensor, surroundings: float, worn: float
    ) -> Tensor:
        """(P, R) of phrases of class `label` (P,) in `image` (P,); `group` (P,) bool: do they name many?

        The last two are weights of what is no detection; 0 leaves it out.
        """
        evidence = (regions.scores[image] * (regions.labels[image] == label[:, None, None])).sum(-1)
        many = group & (label >= 0)
        evidence[many] = _together(regions.boxes[image[many]], evidence[many])
        thing = torch.where(regions.labels < self.detected, regions.scores, 0.0).amax(-1)  # (B, R)
        ground = label == SURROUNDINGS
        evidence[ground] = surroundings * _background(regions, thing)[image[ground]]
        below = label == BELOW
        evidence[below] = surroundings * _lower(regions, thing)[image[below]]
        human = (regions.scores * (regions.labels == self.person)).sum(-1)  # (B, R)
        for kind, (_, where) in PARTS.items():
            part = label == kind
            if self.person != NONE and part.any():
                evidence[part] = worn * _worn(regions.boxes, human, where)[image[part]]
        return evidence * regions.valid[image]


def _class(word: str, labels: Labels, person: int) -> int:
    net = wordnet()
    synset = net.synset(word)
    kinds = set() if synset is None else set(net.kinds(synset))

    def a_kind_of(nouns: Sequence[str]) -> bool:
        return any(net.synset(noun) in kinds for noun in nouns)

    own, clothing = labels.find(word), labels.find("clothing")
    named = own and (own.way != "hypernym" or (clothing and clothing.way == "name"))
    if own and named and labels.names[own.label] not in _never_named(labels.names):
        return own.label  # the detector has a class for it: it knows better than any rule
    for kind, (nouns, _) in PARTS.items():
        if a_kind_of(nouns):
            return kind
    if match := labels.find("ball" if singular(word) in BALLS else word):
        return match.label
    unknown_agent = synset is None and word.endswith(AGENT)
    if unknown_agent or {word, singular(word)} & {*GROUP, *SOMEONE} or a_kind_of(PEOPLE):
        return person
    if a_kind_of(GROUND):
        return BELOW
    return SURROUNDINGS if a_kind_of(AROUND) else NONE


def _never_named(names: Sequence[str]) -> frozenset[str]:
    """Classes of COCO's list that have no boxes, so that no detector of it gives them."""
    return frozenset(UNUSED if set(UNUSED) <= set(names) else ())


def _background(regions: Regions, thing: Tensor) -> Tensor:
    """(B, R), of the probability that a region is a thing (B, R)"""
    return area(regions.boxes) / regions.size.prod(-1, keepdim=True).clamp(min=1) * (1 - thing)


def _lower(regions: Regions, thing: Tensor) -> Tensor:
    """(B, R), likewise"""
    boxes = regions.boxes / regions.size.repeat(1, 2)[:, None].clamp(min=1)
    return iou(boxes, boxes.new_tensor([LOWER]).expand(len(boxes), 1, 4)).squeeze(-1) * (1 - thing)


def _worn(boxes: Tensor, human: Tensor, where: Box) -> Tensor:
    """(B, R, 4), (B, R) -> (B, R): the greatest IoU · p with that part of a person."""
    corner, size = boxes[..., :2].repeat(1, 1, 2), (boxes[..., 2:] - boxes[..., :2]).repeat(1, 1, 2)
    part = corner + size * boxes.new_tensor(where)
    return (iou(boxes, part) * torch.where(human > SURE, human, 0.0)[:, None]).amax(-1)


def _together(boxes: Tensor, evidence: Tensor) -> Tensor:
    """(P, R, 4), (P, R) -> (P, R): the evidence of single regions where fewer than two are sure."""
    sure = evidence > SURE
    around = union(boxes, sure)[:, None]  # (P, 1, 4)
    joint = iou(boxes, around).squeeze(-1) * evidence.amax(-1, keepdim=True)
    return torch.where(sure.sum(-1, keepdim=True) > 1, joint, evidence)
