"""How an event is laid out: who stands where, how large, in front of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from groundling.scenes.people import SEAT
from groundling.scenes.world import PEOPLE, Fact, pick
from groundling.scenes.world_builder import GROWTH, WorldBuilder, depth

SEATS: dict[str, tuple[float, float]] = {  # where one sits or stands on it, from its own origin
    "bicycle": (-7, -34),
    "motorcycle": (-8, -30),
    "horse": (-2, -58),
    "elephant": (-4, -80),
    "sled": (-4, -12),
    "skateboard": (0, -9),
    "boat": (14, -16),
    "bench": (0, -20),
    "chair": (0, -23),
    "rock": (-2, -25),
    "box": (0, -28),
    "table": (0, -41),
    "fence": (0, -36),
}
ARMS = {"kite": "up", "flag": "up", "guitar": "hug", "book": "hug", "ball": "hug", "bucket": "down"}  # others: out
WIDE = {"bus": 62, "truck": 56, "train": 80, "house": 50, "fence": 54, "boat": 48, "elephant": 50, "tent": 44,
        "car": 46, "horse": 44, "cow": 42, "bench": 40, "table": 40, "tractor": 40}  # fmt: skip
HELMETS = {"bicycle": 0.8, "motorcycle": 0.9, "skateboard": 0.7, "horse": 0.3, "sled": 0.1}  # how likely
SITS = {"bicycle": "ride", "motorcycle": "ride", "horse": "ride", "elephant": "ride", "boat": "tuck"}


@dataclass(frozen=True)
class Spot:
    """Where on the ground, and facing which way."""

    x: float
    y: float
    flip: bool


@dataclass(frozen=True)
class Event:
    """A kind of thing that happens: how often, where, to whom, and how it is laid out."""

    weight: float
    places: str  # names, separated by blanks
    subjects: Mapping[str, float]
    verbs: Mapping[str, float]
    where: str  # the preposition before the object
    things: Mapping[str, float]
    layout: Callable[[WorldBuilder, Event, Spot], Fact]


def _stand(
    builder: WorldBuilder, name: str, spot: Spot, pose: str = "stand", arm: str = "down", near: float | None = None
) -> int:
    who = builder.add(name, spot.x, spot.y, near, pose=pose, arm=arm, flip=spot.flip)
    if name in PEOPLE:
        builder.dress(who)
    return who


def alone(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """One, two or three of a kind who do the same, side by side."""
    rng, name, verb = builder.rng, pick(builder.rng, event.subjects), pick(builder.rng, event.verbs)
    small = WIDE.get(name, 30) < 45 and verb != "park"
    count = rng.choices((1, 2, 3), (0.66, 0.24, 0.1))[0] if small else 1
    step = (40 if name in PEOPLE else max(50, 2 * WIDE.get(name, 0))) * depth(spot.y)
    pose = {"run": "run", "walk": "walk", "jump": "jump", "fly": "fly"}.get(verb, "stand")
    who = []
    for i in range(count):
        x, y = spot.x + (i - (count - 1) / 2) * step, spot.y + (rng.uniform(-4, 4) if count > 1 else 0)
        if verb == "fly":
            who.append(_stand(builder, name, Spot(x, rng.uniform(36, 62), spot.flip), pose, near=1.1))
        else:
            who.append(_stand(builder, name, Spot(x, y - 9 if verb == "jump" else y, spot.flip), pose))
    return Fact(tuple(who), verb)


def hold(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    thing, name = pick(builder.rng, event.things), pick(builder.rng, event.subjects)
    pose = "stand" if thing == "guitar" else pick(builder.rng, {"stand": 2, "walk": 1})
    who = _stand(builder, name, spot, pose, ARMS.get(thing, "out"))
    return Fact((who,), pick(builder.rng, event.verbs), event.where, builder.hold(who, thing))


def mount(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """On the back or the seat of something."""
    thing, name, verb = (
        pick(builder.rng, event.things),
        pick(builder.rng, event.subjects),
        pick(builder.rng, event.verbs),
    )
    below = builder.add(
        thing, spot.x, spot.y, flip=spot.flip, pose="walk" if thing in ("horse", "elephant") else "stand"
    )
    seat, (across, up) = builder.items[below], SEATS[thing]
    x, y = seat.x + (-across if seat.flip else across) * seat.size, seat.y + up * seat.size
    near = depth(spot.y) * (0.92 if SITS.get(thing) == "ride" else 1.0)
    if name not in PEOPLE:
        pose = "stand" if name == "bird" else "lie"
        who = builder.add(name, x, y, near, pose=pose, layer=spot.y + 0.1, flip=spot.flip)
        return Fact((who,), verb, event.where, below)
    pose = "stand" if thing == "skateboard" else SITS.get(thing, "sit")
    foot = y if pose == "stand" else y + SEAT * near * GROWTH[name]
    layer = spot.y + (-0.1 if thing == "boat" else 0.1)
    arm = "out" if pose == "ride" else "down"
    who = builder.add(name, x, foot, near, layer=layer, pose=pose, arm=arm, flip=spot.flip)
    builder.dress(who, HELMETS.get(thing, 0.0))
    return Fact((who,), verb, event.where, below)


def beside(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """Next to something at the same depth."""
    name, thing = pick(builder.rng, event.subjects), pick(builder.rng, event.things)
    ahead = (-0.5 if spot.flip else 0.5) * (WIDE.get(thing, 26) + WIDE.get(name, 22)) * depth(spot.y)
    who = _stand(builder, name, replace(spot, x=spot.x - ahead))
    other = builder.add(thing, spot.x + ahead, spot.y, flip=builder.rng.random() < 0.5)
    return Fact((who,), pick(builder.rng, event.verbs), event.where, other)


def before(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """In front of something that stands further back."""
    thing, shift = pick(builder.rng, event.things), builder.rng.uniform(-16, 16)
    back = builder.add(thing, spot.x + shift, spot.y - 30, 1.1, flip=builder.rng.random() < 0.5)
    who = _stand(builder, pick(builder.rng, event.subjects), spot)
    return Fact((who,), pick(builder.rng, event.verbs), event.where, back)


def behind(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """Half hidden by something that stands nearer."""
    front = builder.add(pick(builder.rng, event.things), spot.x, spot.y + 4)
    who = _stand(builder, pick(builder.rng, event.subjects), replace(spot, y=spot.y - 3))
    return Fact((who,), pick(builder.rng, event.verbs), event.where, front)


def under(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """Below the leaves of a tree, or below the top of a table."""
    thing, name = pick(builder.rng, event.things), pick(builder.rng, event.subjects)
    near = 1.35 if thing == "tree" else 1.4
    above = builder.add(thing, spot.x, spot.y - 4, near)
    shift = (-24.0 if spot.flip else 24.0) if thing == "tree" else 0.0
    verb = pick(builder.rng, event.verbs)
    pose = "lie" if verb == "sleep" else "stand"
    who = _stand(builder, name, replace(spot, x=spot.x + shift), pose, near=0.72 if thing == "tree" else 0.85)
    return Fact((who,), verb, event.where, above)


def lead(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """A person with an animal on a leash ahead."""
    side = -1 if spot.flip else 1
    name, beast = pick(builder.rng, event.subjects), pick(builder.rng, event.things)
    who = _stand(builder, name, replace(spot, x=spot.x - side * 30), "walk", "out")
    pet = builder.add(beast, spot.x + side * 40, spot.y + 3, pose="walk", flip=spot.flip)
    dog, (x, y) = builder.items[pet], builder.grip(who)
    neck = dog.x + side * 17 * dog.size - x, dog.y - 32 * dog.size - y
    builder.add("leash", x, y, 1.0, layer=spot.y + 4, reach=neck)
    return Fact((who,), pick(builder.rng, event.verbs), event.where, pet)


def kick(builder: WorldBuilder, event: Event, spot: Spot) -> Fact:
    """Somebody with something round ahead: on the ground, or in the air to be caught."""
    side = -1 if spot.flip else 1
    name, verb = pick(builder.rng, event.subjects), pick(builder.rng, event.verbs)
    who = _stand(builder, name, replace(spot, x=spot.x - side * 18), "stand" if verb == "play" else "run")
    ahead = (26 if name in PEOPLE else 40) * depth(spot.y) * side
    up = 40 if verb == "catch" else -1
    thing = builder.add(pick(builder.rng, event.things), spot.x + ahead, spot.y - up, depth(spot.y), layer=spot.y + 1)
    return Fact((who,), verb, event.where if verb == "play" else "", thing)
