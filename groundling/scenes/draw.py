"""From a world to its picture and to the boxes of what can be seen in it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from groundling.scenes.animals import BEASTS, beast, bird, fish
from groundling.scenes.pen import Pen
from groundling.scenes.people import person
from groundling.scenes.places import HEIGHT, WIDTH, place, water
from groundling.scenes.things import THINGS
from groundling.scenes.vehicles import VEHICLES
from groundling.scenes.world import PEOPLE, Item, World

FINER = 3  # pictures are drawn this much larger and then reduced: smooth edges
Pixels = tuple[int, int, int, int]  # left, top, right, bottom; right and bottom are outside


@dataclass(frozen=True)
class Picture:
    """`boxes[i]` is where item i can be seen, None where hardly anything of it can; garments belong to their wearer."""

    image: Image.Image
    boxes: tuple[Pixels | None, ...]


def draw(world: World, seed: str, width: int = WIDTH) -> Picture:
    """The same world and seed give the same pixels. `width` is in pixels; the height is three quarters of it."""
    rng, size = Random(seed), (width, width * HEIGHT // WIDTH)
    canvas = Image.new("RGB", (size[0] * FINER, size[1] * FINER))
    owners = Image.new("L", canvas.size)
    pen = Pen(ImageDraw.Draw(canvas), ImageDraw.Draw(owners), zoom=canvas.width / WIDTH)
    place(pen, world.place, rng)
    for index in sorted(range(len(world.items)), key=lambda i: (world.items[i].layer, i)):
        if world.items[index].name == "water":
            water(pen.of(index + 1), world.place, rng)
        elif world.items[index].wearer < 0:
            _item(pen.of(index + 1), world, index)
    seen = np.asarray(owners.resize(size, Image.Resampling.NEAREST))
    image = Image.fromarray(_film(np.asarray(canvas.reduce(FINER)), rng))
    return Picture(image, tuple(_box(seen, world.items, i) for i in range(len(world.items))))


def _item(pen: Pen, world: World, index: int) -> None:
    item = world.items[index]
    pen = pen.at(item.x, item.y, item.size, item.flip)
    if item.name in PEOPLE:
        wears = {w.name: (i + 1, w.rgb) for i, w in enumerate(world.items) if w.wearer == index}
        person(pen, item.name, item.pose, item.arm, item.tints[0], item.tints[1], wears)
    elif item.name in BEASTS:
        beast(pen, item.name, item.pose, item.rgb)
    elif item.name in ("bird", "duck"):
        bird(pen, item.name, item.pose, item.rgb)
    elif item.name == "fish":
        fish(pen, item.name, item.pose, item.rgb)
    elif item.name == "leash":
        across, down = item.reach
        pen.limb([(0, 0), (across / 2, down / 2 + 6), (across, down)], 1.2, (60, 40, 40), edge=1)
    else:
        (VEHICLES | THINGS)[item.name](pen, item.rgb)


def _film(pixels: NDArray[np.uint8], rng: Random) -> NDArray[np.uint8]:
    """Light that falls off to one side, and grain. Bytes of `Random` are the same everywhere, now and later."""
    high, wide = pixels.shape[:2]
    lean, steep = rng.uniform(-10, 10), rng.uniform(-6, 6)
    light = np.linspace(-lean, lean, wide)[None, :] + np.linspace(-steep, steep, high)[:, None]
    grain = np.frombuffer(rng.randbytes(high * wide), np.uint8).reshape(high, wide) % 9 - 4.0
    return np.clip(np.round(pixels + (light + grain)[..., None]), 0, 255).astype(np.uint8)


def _box(seen: NDArray[np.uint8], items: tuple[Item, ...], index: int) -> Pixels | None:
    """Around all that is left of an item and of what it wears."""
    mine = seen == index + 1
    for i, item in enumerate(items):
        if item.wearer == index:
            mine |= seen == i + 1
    if np.count_nonzero(mine) < 24:
        return None
    rows, columns = np.flatnonzero(mine.any(1)), np.flatnonzero(mine.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
