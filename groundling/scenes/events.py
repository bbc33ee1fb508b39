"""What happens where, and how often.

Frequencies are long-tailed on purpose, and some things come together more often than not: a rider and a helmet, a dog
and a ball, a boat and water.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from groundling.scenes.layouts import (
    WIDE,
    Event,
    Spot,
    alone,
    before,
    behind,
    beside,
    hold,
    kick,
    lead,
    mount,
    under,
)
from groundling.scenes.world import Item, World, pick
from groundling.scenes.world_builder import WorldBuilder

ANYBODY = {"man": 5, "woman": 4, "boy": 2.5, "girl": 2}
KIDS = {"boy": 3, "girl": 2.5, "man": 0.6}
PETS = {"dog": 6, "cat": 2.5, "rabbit": 0.4}
RUNNERS = {"dog": 6, "horse": 1.5, "cat": 1, "rabbit": 0.5}
CATTLE = {"cow": 3, "sheep": 3, "horse": 3, "elephant": 0.3}
PARKED = {"car": 4, "truck": 1.5, "tractor": 0.8, "bus": 0.5}
OUTSIDE = "park street beach field snow"
NOTHING: Mapping[str, float] = {}

HANDY = {"balloon": 5, "umbrella": 5, "kite": 2, "flag": 1, "flower": 1}
BY = "next to"
FRONT = "in front of"

PERSONAL = (
    Event(5, OUTSIDE, ANYBODY, {"hold": 1}, "", HANDY, hold),
    Event(4, "beach", KIDS, {"hold": 1}, "", {"bucket": 3, "umbrella": 3, "kite": 2, "ball": 2}, hold),
    Event(4, "room", ANYBODY, {"hold": 1}, "", {"book": 4, "cup": 2, "camera": 0.7, "balloon": 1}, hold),
    Event(3, "room street park", ANYBODY, {"play": 1}, "", {"guitar": 1}, hold),
    Event(9, "street park", ANYBODY, {"ride": 1}, "", {"bicycle": 6, "skateboard": 2, "motorcycle": 2}, mount),
    Event(6, "field beach", ANYBODY, {"ride": 1}, "", {"horse": 6, "elephant": 0.5}, mount),
    Event(6, "snow", KIDS, {"ride": 1}, "", {"sled": 1}, mount),
    Event(6, "park street", ANYBODY, {"sit": 1}, "on", {"bench": 1}, mount),
    Event(6, "room", ANYBODY, {"sit": 1}, "on", {"chair": 1}, mount),
    Event(1.5, "beach field", ANYBODY, {"sit": 1}, "on", {"rock": 1}, mount),
    Event(10, "lake", ANYBODY, {"sit": 1}, "in", {"boat": 1}, mount),
    Event(5, "park street beach", ANYBODY, {"walk": 1}, "", {"dog": 1}, lead),
    Event(
        3, "street park field", ANYBODY, {"stand": 1}, BY, {"car": 5, "tree": 3, "bicycle": 2, "tractor": 0.5}, beside
    ),
    Event(3, "snow", ANYBODY, {"stand": 1}, BY, {"snowman": 4, "tree": 2}, beside),
    Event(2, "beach", KIDS, {"stand": 1}, BY, {"castle": 2, "rock": 1}, beside),
    Event(3, "field park snow", ANYBODY, {"stand": 1}, BY, {"tent": 2, "horse": 2, "tree": 1}, beside),
    Event(3, "street field park", ANYBODY, {"stand": 1}, FRONT, {"house": 4, "bus": 2, "truck": 1, "tree": 1}, before),
    Event(2.5, "room field park", ANYBODY, {"stand": 1}, "behind", {"fence": 2, "table": 2, "bench": 1}, behind),
    Event(2.5, "park field", ANYBODY, {"stand": 1}, "under", {"tree": 1}, under),
    Event(6, OUTSIDE, ANYBODY, {"run": 3, "walk": 3, "jump": 2}, "", NOTHING, alone),
    Event(3, "room", ANYBODY, {"stand": 2, "jump": 1}, "", NOTHING, alone),
    Event(4, "park field beach", KIDS, {"kick": 3, "catch": 1}, "", {"ball": 1}, kick),
)
ANIMAL = (
    Event(9, "park beach room snow field", PETS, {"chase": 3, "play": 2, "catch": 1}, "with", {"ball": 1}, kick),
    Event(5, OUTSIDE, RUNNERS, {"run": 3, "stand": 1, "walk": 1}, "", NOTHING, alone),
    Event(6, "field", CATTLE, {"graze": 2, "stand": 1, "walk": 1}, "", NOTHING, alone),
    Event(5, "room", {"cat": 5, "dog": 2}, {"sit": 2, "sleep": 2}, "on", {"chair": 3, "table": 2, "box": 1}, mount),
    Event(1.5, "park", {"cat": 2, "bird": 2, "dog": 1}, {"sit": 1}, "on", {"bench": 2, "fence": 1, "rock": 0.5}, mount),
    Event(3, "room", {"cat": 3, "dog": 3, "rabbit": 0.5}, {"sleep": 1, "stand": 1}, "under", {"table": 1}, under),
    Event(1.5, "park field street", {"dog": 4, "cat": 1}, {"stand": 1}, BY, {"tree": 2, "car": 2, "sign": 0.5}, beside),
    Event(1.2, "park beach lake field", {"bird": 1}, {"fly": 1}, "", NOTHING, alone),
    Event(4, "lake", {"duck": 4, "fish": 0.6}, {"swim": 1}, "", NOTHING, alone),
)
MOTOR = (
    Event(6, "street", {"car": 6, "bus": 3, "truck": 2, "motorcycle": 1}, {"drive": 2, "park": 1}, "", NOTHING, alone),
    Event(2.5, "street field", PARKED, {"park": 1}, FRONT, {"house": 3, "tree": 1}, before),
    Event(6, "lake", {"boat": 1}, {"float": 1}, "", NOTHING, alone),
    Event(0.8, "field", {"train": 2, "tractor": 2}, {"drive": 1}, "", NOTHING, alone),
    Event(0.4, "field beach lake", {"plane": 1}, {"fly": 1}, "", NOTHING, alone),
)
EVENTS = PERSONAL + ANIMAL + MOTOR
PLACES = {"park": 8, "street": 7, "beach": 4.5, "room": 4, "field": 4, "snow": 2.5, "lake": 2.5}
EXTRAS: dict[str, Mapping[str, float]] = {  # what stands about
    "park": {"tree": 5, "bench": 2, "fence": 1, "bicycle": 1, "flower": 1, "bird": 0.5},
    "street": {"car": 4, "lamp": 2, "tree": 2, "sign": 1.5, "bicycle": 1, "bus": 0.8, "bench": 0.8},
    "beach": {"rock": 2, "umbrella": 2, "castle": 1, "ball": 1, "bucket": 0.8, "boat": 1},
    "room": {"table": 2, "chair": 2, "box": 1, "cat": 0.7},
    "field": {"tree": 3, "fence": 2, "house": 2, "rock": 1, "sheep": 0.8, "tractor": 0.3},
    "snow": {"tree": 3, "snowman": 2, "house": 1.5, "rock": 0.5},
    "lake": {"duck": 2, "boat": 1, "bird": 0.7},
}


def sample(rng: Random) -> World:
    """A place; what it is about in the foreground; perhaps a second event; perhaps something that just stands there."""
    builder = WorldBuilder(rng, pick(rng, PLACES))
    if builder.place in ("beach", "lake"):
        builder.add("water", 128, 92, layer=-1.0)
    here = [event for event in EVENTS if builder.place in event.places.split()]
    _happen(builder, here, Spot(128 + rng.uniform(-26, 26), rng.uniform(160, 178), rng.random() < 0.5))
    left, right = reach(builder.items)
    sides = [side for side in ((8.0, left), (right, 248.0)) if side[1] - side[0] > 44]
    rng.shuffle(sides)
    if sides and rng.random() < 0.3:
        left, right = sides.pop()
        quiet = [event for event in here if event.layout is alone]
        _happen(builder, quiet, Spot((left + right) / 2, rng.uniform(132, 150), rng.random() < 0.5))
    for left, right in sides:
        if rng.random() < 0.55:
            _extra(builder, left, right)
    return World(builder.place, tuple(builder.items), tuple(builder.facts))


def _happen(builder: WorldBuilder, events: Sequence[Event], spot: Spot) -> None:
    [event] = builder.rng.choices(events, [e.weight for e in events])
    builder.facts.append(event.layout(builder, event, spot))


def reach(items: Sequence[Item]) -> tuple[float, float]:
    """From where to where the items stretch, roughly."""
    ends = [(i.x, WIDE.get(i.name, 22) * i.size) for i in items if i.name != "water"]
    return min(x - half for x, half in ends), max(x + half for x, half in ends)


def _extra(builder: WorldBuilder, left: float, right: float) -> None:
    """Something between left and right that is not there yet and takes no part in anything."""
    rng, there = builder.rng, {item.name for item in builder.items}
    name = pick(rng, {name: weight for name, weight in EXTRAS[builder.place].items() if name not in there})
    x, flip = (left + right) / 2 + rng.uniform(-6, 6), rng.random() < 0.5
    if name == "bird":
        builder.add(name, x, rng.uniform(34, 58), 1.0, flip=flip, pose="fly")
    elif name in ("house", "tree", "bus", "boat", "fence"):
        builder.add(name, x, rng.uniform(114, 126), 0.95, flip=flip)
    else:
        builder.add(name, x, rng.uniform(132, 166), flip=flip)
