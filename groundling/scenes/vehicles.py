"""Vehicles, facing right, standing on (0, 0)."""

from __future__ import annotations

from groundling.scenes.pen import RGB, Pen, shade

GLASS = (185, 215, 230)
TYRE = (38, 38, 42)
STEEL = (150, 155, 160)


def wheel(pen: Pen, x: float, r: float) -> None:
    pen.ellipse(x, -r, r, r, TYRE)
    pen.ellipse(x, -r, r * 0.5, r * 0.5, (205, 208, 212))


def car(pen: Pen, rgb: RGB) -> None:
    pen.polygon([(-30, -24), (-20, -40), (14, -40), (28, -24)], rgb)
    pen.polygon([(-24, -25), (-17, -37), (-4, -37), (-4, -25)], GLASS)
    pen.polygon([(-1, -25), (-1, -37), (12, -37), (22, -25)], GLASS)
    pen.polygon([(-46, -8), (-46, -23), (-30, -26), (28, -26), (46, -20), (47, -8)], rgb)
    pen.box(43, -20, 47, -15, (255, 235, 150))
    pen.box(-46, -21, -43, -15, (200, 40, 40))
    wheel(pen, -26, 9)
    wheel(pen, 27, 9)


def bus(pen: Pen, rgb: RGB) -> None:
    pen.box(-62, -62, 62, -9, rgb)
    pen.box(-62, -26, 62, -21, (245, 245, 240), edge=1)
    for i in range(5):
        pen.box(-57 + i * 21, -54, -41 + i * 21, -34, GLASS)
    pen.box(48, -54, 60, -12, GLASS)
    wheel(pen, -38, 10)
    wheel(pen, 34, 10)


def truck(pen: Pen, rgb: RGB) -> None:
    pen.box(-56, -60, 20, -12, (226, 226, 220))
    pen.polygon([(22, -12), (22, -50), (42, -50), (54, -32), (56, -12)], rgb)
    pen.polygon([(29, -32), (29, -45), (40, -45), (48, -32)], GLASS)
    pen.box(-58, -14, 56, -9, (80, 80, 85))
    for x in (-40, -20, 38):
        wheel(pen, x, 10)


def train(pen: Pen, rgb: RGB) -> None:
    pen.box(-80, -5, 80, -2, (110, 100, 95))
    pen.box(-70, -50, -22, -12, shade(rgb, 0.8))
    pen.box(-62, -42, -48, -26, GLASS)
    pen.box(-44, -42, -30, -26, GLASS)
    pen.box(-18, -60, 8, -12, rgb)
    pen.box(-12, -53, 2, -37, GLASS)
    pen.box(8, -40, 60, -12, rgb)
    pen.box(42, -58, 52, -40, (60, 60, 65))
    pen.ellipse(60, -26, 6, 13, shade(rgb, 0.7))
    for x in (-60, -34, -8, 16, 40):
        wheel(pen, x, 9)


def tractor(pen: Pen, rgb: RGB) -> None:
    pen.box(-22, -58, 4, -30, GLASS)
    pen.box(-26, -62, 8, -56, rgb)
    pen.box(4, -38, 40, -16, rgb)
    pen.box(-26, -32, 6, -16, rgb)
    pen.limb([(26, -38), (26, -52)], 3, (60, 60, 60))
    wheel(pen, -14, 19)
    wheel(pen, 30, 11)


def bicycle(pen: Pen, rgb: RGB) -> None:
    for x in (-19, 19):
        pen.ring(x, -14, 14, 2.6, TYRE)
        pen.ring(x, -14, 2.5, 2, STEEL)
    for path in (
        [(-19, -14), (-2, -13), (13, -33), (-8, -32), (-2, -13)],
        [(-19, -14), (-8, -32)],
        [(19, -14), (13, -36)],
    ):
        pen.limb(path, 2.8, rgb)
    pen.limb([(-12, -36), (-4, -36)], 3.5, TYRE)
    pen.limb([(13, -36), (12, -41), (18, -42)], 2.2, TYRE)


def motorcycle(pen: Pen, rgb: RGB) -> None:
    wheel(pen, -22, 12)
    wheel(pen, 23, 12)
    pen.limb([(23, -12), (14, -36), (10, -40)], 3, STEEL)
    pen.polygon([(-12, -12), (12, -12), (14, -22), (-14, -22)], (95, 97, 102))
    pen.polygon([(-26, -27), (-20, -32), (2, -28), (16, -33), (17, -22), (-10, -20)], rgb)
    pen.limb([(-24, -30), (-4, -29)], 4.5, TYRE)
    pen.ellipse(18, -32, 4, 4, (255, 240, 180))


def skateboard(pen: Pen, rgb: RGB) -> None:
    for x in (-11, 11):
        pen.ellipse(x, -3, 3.2, 3.2, (235, 235, 235))
    pen.limb([(-21, -10), (-15, -7), (15, -7), (21, -10)], 3.6, rgb)


def sled(pen: Pen, rgb: RGB) -> None:
    pen.limb([(-24, -2), (20, -2), (29, -8), (26, -15)], 2.6, (120, 80, 45))
    for x in (-16, 12):
        pen.limb([(x, -2), (x, -10)], 2.6, (120, 80, 45))
    pen.limb([(-26, -11), (20, -11)], 5, rgb)


def boat(pen: Pen, rgb: RGB) -> None:
    pen.limb([(-14, -18), (-14, -74)], 2.6, (125, 88, 50))
    pen.polygon([(-11, -72), (-11, -28), (26, -28)], (246, 244, 236))
    pen.polygon([(-17, -66), (-17, -28), (-38, -28)], (236, 232, 222))
    pen.polygon([(-48, -20), (52, -20), (38, 0), (-38, 0)], rgb)
    pen.polygon([(-48, -20), (52, -20), (49, -15), (-45, -15)], (245, 240, 228))


def plane(pen: Pen, rgb: RGB) -> None:
    pen.polygon([(-34, -14), (-44, -30), (-36, -30), (-24, -14)], rgb)
    pen.ellipse(0, -12, 40, 7, (236, 238, 242))
    pen.polygon([(-4, -11), (-22, 6), (-12, 6), (12, -11)], rgb)
    for x in (-14, -4, 6, 16):
        pen.ellipse(x, -14, 2, 2, (80, 110, 150), edge=1)
    pen.polygon([(28, -16), (36, -15), (37, -12), (28, -12)], GLASS)


VEHICLES = {
    "car": car,
    "bus": bus,
    "truck": truck,
    "train": train,
    "tractor": tractor,
    "bicycle": bicycle,
    "motorcycle": motorcycle,
    "skateboard": skateboard,
    "sled": sled,
    "boat": boat,
    "plane": plane,
}
