"""Builds a world: adds items of the right colour and size, dresses people, puts things into their hands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from groundling.scenes.pen import RGB
from groundling.scenes.people import hand
from groundling.scenes.world import PEOPLE, Fact, Item, pick

COLOURS: dict[str, RGB] = {
    "red": (204, 44, 40),
    "blue": (44, 84, 204),
    "green": (44, 136, 62),
    "yellow": (242, 206, 56),
    "black": (40, 40, 44),
    "white": (242, 242, 238),
    "brown": (132, 84, 44),
    "orange": (238, 130, 36),
    "pink": (240, 138, 176),
    "purple": (124, 66, 164),
    "gray": (136, 138, 144),
}
BRIGHT = {"red": 5, "blue": 5, "yellow": 3, "green": 2.5, "orange": 1.5, "pink": 1, "purple": 0.7}
CLOTH = {"red": 5, "blue": 5, "white": 3, "black": 3, "yellow": 2, "green": 2, "orange": 1, "pink": 1, "purple": 0.6}
DULL = {"black": 4, "blue": 4, "gray": 2, "brown": 1.5}
FUR = {"brown": 4, "black": 4, "white": 3, "gray": 1, "orange": 0.8}
WOODEN = {"brown": 4, "green": 1, "white": 1}
LEAVES: RGB = (86, 146, 62)
PALETTES: dict[str, Mapping[str, float]] = {
    **dict.fromkeys(("shirt", "dress", "car"), CLOTH),
    **dict.fromkeys(("pants", "shorts"), DULL),
    **dict.fromkeys(("dog", "cat", "rabbit"), FUR),
    "horse": {"brown": 4, "black": 2, "white": 2},
    **dict.fromkeys(("bench", "chair", "table", "fence"), WOODEN),
    "cow": {"white": 3, "brown": 2, "black": 1},
    "sheep": {"white": 1},
    "elephant": {"gray": 1},
    "bird": {"blue": 3, "red": 2, "black": 2, "yellow": 1, "white": 1},
    "duck": {"gray": 2, "brown": 2, "white": 1},
    "fish": {"orange": 3, "red": 1, "yellow": 1},
    "hat": {"red": 3, "white": 2, "blue": 2, "black": 1.5, "yellow": 1},
    "book": {"red": 2, "blue": 2, "green": 1, "brown": 1},
    "camera": {"black": 1},
    "guitar": {"brown": 3, "red": 1, "black": 1},
    "cup": {"white": 2, "red": 1, "blue": 1},
    "tree": {"green": 1},
    "water": {"blue": 1},
    "rock": {"gray": 1},
    "box": {"brown": 1},
    "house": {"white": 2, "yellow": 1, "blue": 1, "pink": 0.6},
    "lamp": {"yellow": 1},
    "snowman": {"black": 1},
    "castle": {"brown": 1},
    "sign": {"red": 3, "blue": 1},
}
SKIN: tuple[RGB, ...] = ((246, 212, 184), (232, 186, 150), (198, 146, 106), (142, 96, 66))
HAIR: tuple[RGB, ...] = ((54, 38, 30), (106, 68, 36), (206, 164, 84), (168, 84, 40), (36, 32, 34))
GROWTH = {"man": 0.98, "woman": 0.93, "boy": 0.7, "girl": 0.68, "tree": 1.15, "house": 1.1, "ball": 0.9, "horse": 0.9,
          "rabbit": 0.9, "bird": 0.9, "cow": 0.95}  # fmt: skip


def depth(y: float) -> float:
    """How large things are that stand at this height of the picture: the lower, the nearer."""
    return 0.66 + 0.0075 * (y - 100)


@dataclass
class WorldBuilder:
    rng: Random
    place: str
    items: list[Item] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def add(
        self,
        name: str,
        x: float,
        y: float,
        near: float | None = None,
        *,
        layer: float | None = None,
        flip: bool = False,
        pose: str = "stand",
        arm: str = "down",
        wearer: int = -1,
        reach: tuple[float, float] = (0, 0),
    ) -> int:
        """Put an item there, in a colour of its kind; it is as large as its depth says, or as `near` does."""
        colour = pick(self.rng, PALETTES.get(name, BRIGHT))
        rgb = self._tint(LEAVES if name == "tree" else COLOURS[colour])
        size = (depth(y) if near is None else near) * GROWTH.get(name, 1.0)
        tints = (self.rng.choice(SKIN), self.rng.choice(HAIR)) if name in PEOPLE else ()
        above = y if layer is None else layer
        self.items.append(Item(name, x, y, size, colour, rgb, above, flip, pose, arm, wearer, tints, reach))
        return len(self.items) - 1

    def dress(self, person: int, helmet: float = 0.0) -> None:
        """Give a person clothes; `helmet` is the chance of one."""
        who, cold, chance = self.items[person], self.place == "snow", self.rng.random
        garments = ["dress"] if who.name in ("woman", "girl") and chance() < 0.25 else ["shirt"]
        if garments == ["shirt"]:
            garments.append("pants" if cold or chance() < 0.65 else "shorts")
        if chance() < helmet:
            garments.append("helmet")
        elif chance() < 0.14:
            garments.append("hat")
        if chance() < (0.6 if cold else 0.02):
            garments.append("scarf")
        for garment in garments:
            self.add(garment, who.x, who.y, who.size, layer=who.layer, wearer=person)

    def grip(self, person: int) -> tuple[float, float]:
        """Where the hand of a person is that holds something; close to the chest in a hug."""
        who = self.items[person]
        across, down = hand(who.name, who.pose, who.arm)
        if who.arm == "hug":
            across -= 12
        return who.x + (-across if who.flip else across) * who.size, who.y + down * who.size

    def hold(self, person: int, thing: str) -> int:
        """Put a thing into the person's hand."""
        who = self.items[person]
        x, y = self.grip(person)
        return self.add(thing, x, y, max(who.size, 0.75), layer=who.layer + 0.1, flip=who.flip)

    def _tint(self, rgb: RGB) -> RGB:
        light = self.rng.uniform(0.9, 1.08)
        r, g, b = (min(255, max(0, round(c * light + self.rng.uniform(-7, 7)))) for c in rgb)
        return r, g, b
