"""What a world is: a place, items in it, and facts about them. A plain value, made by `events.sample`.

`draw` makes its picture and `grammar` its captions. Units are those of a 256 by 192 picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from groundling.scenes.pen import RGB

PEOPLE = ("man", "woman", "boy", "girl")


@dataclass(frozen=True)
class Item:
    """One object. `wearer` is the index of the person whose garment it is, or -1."""

    name: str
    x: float
    y: float
    size: float
    colour: str
    rgb: RGB
    layer: float  # what has more is drawn later
    flip: bool = False
    pose: str = "stand"
    arm: str = "down"
    wearer: int = -1
    tints: tuple[RGB, ...] = ()  # skin and hair
    reach: tuple[float, float] = (0, 0)  # from a leash's hand to its collar


@dataclass(frozen=True)
class Fact:
    """Who does what with what: indices of items. `where` is the preposition before the object, if any."""

    subjects: tuple[int, ...]
    verb: str
    where: str = ""
    thing: int = -1


@dataclass(frozen=True)
class World:
    """`facts` are in order of importance: the first is what the picture is about."""

    place: str
    items: tuple[Item, ...]
    facts: tuple[Fact, ...]


def pick(rng: Random, weights: Mapping[str, float]) -> str:
    """A key, as often as its weight says."""
    left = rng.random() * sum(weights.values())
    for key, weight in weights.items():
        left -= weight
        if left < 0:
            return key
    return list(weights)[-1]
