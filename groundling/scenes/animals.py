"""Animals, facing right, standing on (0, 0). A dog and a cat differ in the head alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from groundling.scenes.pen import RGB, Pen, Point, shade

DARK = (35, 28, 28)
PINK = (235, 160, 160)


@dataclass(frozen=True)
class Beast:
    """A body on four legs. Lengths in units."""

    body: tuple[float, float]  # half length, half height of the trunk
    leg: float
    thick: float  # of a leg
    head: Point  # middle of the head from the front of the trunk, upwards negative
    tail: tuple[Point, ...]  # from the back of the trunk
    face: Callable[[Pen, RGB], None]


LEGS: dict[str, tuple[float, float, float, float]] = {  # how far each foot is ahead of its hip, in leg lengths
    "stand": (0, 0, 0, 0),
    "walk": (-0.35, 0.35, 0.35, -0.35),
    "run": (-0.9, -0.6, 0.6, 0.9),
}


def beast(pen: Pen, name: str, pose: str, rgb: RGB) -> None:
    kind = BEASTS[name]
    (long, high), leg = kind.body, kind.leg
    if pose in ("lie", "sit"):
        leg, pose = 3.0, "stand"
    middle = -leg - high
    for place, ahead, light in zip((-0.78, -0.55, 0.55, 0.78), LEGS[pose], (0.8, 1, 0.8, 1), strict=True):
        foot = (place * long + ahead * leg, -kind.thick / 3)
        pen.limb([(place * long, middle + high * 0.4), foot], kind.thick, shade(rgb, light))
    back = [(-long + x, middle - high * 0.4 + y) for x, y in ((2.0, 0.0), *kind.tail)]
    pen.limb(back, kind.thick * 0.6, rgb)
    front = (long * 0.75, middle - high * 0.3)
    face = (long + kind.head[0], middle + kind.head[1])
    pen.limb([front, face], high * 0.95, rgb)
    pen.ellipse(0, middle, long, high, rgb)
    pen.limb([front, face], high * 0.8, rgb, edge=1)
    coat = _COATS.get(name)
    if coat:
        coat(pen.at(0, middle), long, high, rgb)
    kind.face(pen.at(*face), rgb)


def _dog(pen: Pen, rgb: RGB) -> None:
    pen.ellipse(7, 3, 7, 4.5, shade(rgb, 1.15))
    pen.ellipse(0, 0, 9, 8.5, rgb)
    pen.ellipse(13, 1.5, 2.2, 2, DARK, edge=1)
    pen.ellipse(-5, 3, 3.6, 8, shade(rgb, 0.6))
    pen.ellipse(3, -2, 1.4, 1.6, DARK, edge=1)
    pen.polygon([(6, 6), (10, 6), (8, 12)], (230, 90, 100))


def _cat(pen: Pen, rgb: RGB) -> None:
    for side in (-1, 1):
        pen.polygon([(side * 8.5, -4), (side * 7, -15), (side * 1, -7)], rgb)
        pen.polygon([(side * 7, -6), (side * 6.3, -11.5), (side * 3.2, -7.5)], PINK, edge=1)
    pen.ellipse(0, 0, 9, 8.5, rgb)
    for side in (-1, 1):
        pen.ellipse(side * 3.6, -1.5, 1.9, 2.2, (150, 200, 60))
        pen.ellipse(side * 3.6, -1.5, 0.7, 1.8, DARK, edge=1)
        pen.limb([(side * 3, 3), (side * 12, 1.5)], 0.7, (245, 245, 245), edge=1)
        pen.limb([(side * 3, 4), (side * 12, 5)], 0.7, (245, 245, 245), edge=1)
    pen.ellipse(0, 2.5, 1.6, 1.2, PINK, edge=1)


def _horse(pen: Pen, rgb: RGB) -> None:
    pen.limb([(-16, 20), (-9, 6), (-5, -7)], 6, shade(rgb, 0.45), edge=1)
    pen.polygon([(-6, -8), (5, -7), (19, 8), (16, 14), (8, 13), (-4, 6)], rgb)
    pen.polygon([(-4, -7), (-1, -16), (3, -7)], rgb)
    pen.ellipse(4, -2, 1.5, 1.8, DARK, edge=1)
    pen.ellipse(15.5, 9, 1.3, 1.1, DARK, edge=1)


def _cow(pen: Pen, rgb: RGB) -> None:
    for side in (-1, 1):
        pen.limb([(side * 6, -7), (side * 10, -14)], 2.6, (225, 215, 190))
        pen.ellipse(side * 11, -4, 5, 2.8, shade(rgb, 0.8))
    pen.ellipse(0, 0, 8.5, 10, rgb)
    pen.ellipse(1, 8, 8, 5.5, PINK)
    for side in (-1, 1):
        pen.ellipse(side * 3 + 1, 8, 1.2, 1.2, DARK, edge=1)
        pen.ellipse(side * 4, -2, 1.5, 1.8, DARK, edge=1)


def _sheep(pen: Pen, _rgb: RGB) -> None:
    dark = (60, 52, 52)
    pen.ellipse(-8, -2, 5, 2.5, dark)
    pen.ellipse(8, -2, 5, 2.5, dark)
    pen.ellipse(0, 2, 6.5, 9, dark)
    for side in (-1, 1):
        pen.ellipse(side * 2.6, 0, 1.6, 1.8, (245, 245, 245), edge=1)
    pen.ellipse(0, -7, 7, 4, (235, 232, 222))


def _elephant(pen: Pen, rgb: RGB) -> None:
    pen.limb([(8, 6), (17, 20), (16, 38), (21, 44)], 8, rgb)
    pen.ellipse(0, 0, 17, 16, rgb)
    pen.polygon([(9, 12), (22, 17), (11, 17)], (245, 240, 225))
    pen.ellipse(-10, 2, 12, 16, shade(rgb, 0.82))
    pen.ellipse(8, -3, 1.8, 2, DARK, edge=1)


def _rabbit(pen: Pen, rgb: RGB) -> None:
    for lean in (-5, 2):
        pen.ellipse(lean, -15, 2.8, 11, rgb)
        pen.ellipse(lean, -15, 1.2, 8, PINK, edge=1)
    pen.ellipse(0, 0, 8, 7.5, rgb)
    pen.ellipse(2.5, -1.5, 1.3, 1.6, DARK, edge=1)
    pen.ellipse(7.5, 1.5, 1.5, 1.2, PINK, edge=1)


def _spots(pen: Pen, long: float, high: float, rgb: RGB) -> None:
    dark = (45, 38, 36) if sum(rgb) > 300 else (240, 238, 232)
    pen.ellipse(-long * 0.45, -high * 0.2, long * 0.22, high * 0.42, dark, edge=1)
    pen.ellipse(long * 0.25, high * 0.2, long * 0.25, high * 0.45, dark, edge=1)


def _wool(pen: Pen, long: float, high: float, rgb: RGB) -> None:
    for i in range(5):
        pen.ellipse(-long + i * long / 2, -high * 0.75, long * 0.3, high * 0.4, rgb)
        pen.ellipse(-long + i * long / 2, high * 0.6, long * 0.3, high * 0.4, rgb)
    pen.ellipse(0, 0, long * 0.98, high * 0.9, rgb, edge=1)


_COATS = {"cow": _spots, "sheep": _wool}

BEASTS = {
    "dog": Beast((21, 9), 14, 5, (2, -15), ((-8, -9), (-13, -14)), _dog),
    "cat": Beast((21, 9), 14, 5, (2, -15), ((-8, -9), (-13, -14)), _cat),
    "horse": Beast((32, 14), 34, 7, (12, -30), ((-8, 8), (-11, 28)), _horse),
    "cow": Beast((32, 15), 24, 8, (10, -15), ((-5, 8), (-6, 26)), _cow),
    "sheep": Beast((24, 14), 14, 5, (6, -12), ((-3, 3),), _sheep),
    "elephant": Beast((42, 26), 32, 15, (14, -16), ((-6, 10), (-7, 30)), _elephant),
    "rabbit": Beast((13, 9), 6, 5, (1, -11), ((-3, 2),), _rabbit),
}


def bird(pen: Pen, name: str, pose: str, rgb: RGB) -> None:
    """A small bird or a duck; one that flies spreads its wings."""
    duck = name == "duck"
    high = -10.0 if pose != "fly" else -12.0
    if pose == "stand" and not duck:
        for x in (-2, 3):
            pen.limb([(x, -6), (x + 1, 0)], 1.4, (200, 130, 40), edge=1)
    if pose == "fly":
        pen.polygon([(-2, high), (-12, high - 20), (-15, high - 17), (-9, high + 2)], shade(rgb, 0.8))
    pen.polygon([(-9, high), (-21, high - 5), (-20, high + 4)], shade(rgb, 0.75))
    pen.ellipse(0, high, 13 if duck else 11, 7.5, rgb)
    pen.ellipse(11, high - 9 - 3 * duck, 6, 6, rgb if not duck else (30, 110, 60))
    beak = [(16, high - 11), (24 + 2 * duck, high - 8), (16, high - 6)]
    pen.polygon([(x, y - 3 * duck) for x, y in beak], (240, 160, 40))
    pen.ellipse(12.5, high - 10 - 3 * duck, 1.3, 1.4, DARK, edge=1)
    if pose == "fly":
        pen.polygon([(5, high), (2, high - 24), (-4, high - 22), (-6, high + 1)], shade(rgb, 0.88))
    else:
        pen.ellipse(-3, high + 1, 7, 4, shade(rgb, 0.75))


def fish(pen: Pen, _name: str, _pose: str, rgb: RGB) -> None:
    pen.polygon([(-10, -8), (-21, -15), (-20, -1)], shade(rgb, 0.8))
    pen.ellipse(0, -8, 14, 7.5, rgb)
    pen.polygon([(-3, -15), (5, -20), (7, -13)], shade(rgb, 0.8))
    pen.limb([(3, -13), (3, -3)], 1.5, (245, 245, 240), edge=1)
    pen.ellipse(9, -9.5, 1.8, 1.8, (250, 250, 250), edge=1)
    pen.ellipse(9.3, -9.5, 1, 1, DARK, edge=1)
