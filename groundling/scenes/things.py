"""Things. What is held has its grip at (0, 0); what stands has its foot there. Strings are nobody's."""

from __future__ import annotations

from groundling.scenes.pen import RGB, Pen, shade

DARK = (45, 42, 45)


# ---------------------------------------------------------------- held


def balloon(pen: Pen, rgb: RGB) -> None:
    pen.of(0).limb([(0, 0), (1, -18), (0, -32)], 0.9, DARK, edge=1)
    pen.polygon([(-2.5, -30), (2.5, -30), (0, -34)], rgb)
    pen.ellipse(0, -47, 12.5, 15, rgb)
    pen.ellipse(-4, -52, 3, 4.5, shade(rgb, 1.45), edge=1)


def umbrella(pen: Pen, rgb: RGB) -> None:
    pen.limb([(0, 6), (0, -34)], 1.8, DARK, edge=1)
    pen.dome(0, -26, 32, 24, rgb)
    for x in (-11, 11):
        pen.polygon([(x - 10, -27), (x, -49), (x + 10, -27)], shade(rgb, 0.82), edge=1)
    pen.limb([(0, -49), (0, -54)], 1.5, DARK, edge=1)


def kite(pen: Pen, rgb: RGB) -> None:
    pen.of(0).limb([(0, 0), (18, -8), (38, -14)], 0.8, (240, 240, 240), edge=1)
    pen.polygon([(40, -50), (56, -33), (40, -10), (24, -33)], rgb)
    pen.polygon([(40, -50), (56, -33), (40, -33)], shade(rgb, 1.35), edge=1)
    pen.limb([(40, -10), (36, -2), (42, 5)], 1.6, rgb, edge=1)


def flag(pen: Pen, rgb: RGB) -> None:
    pen.limb([(0, 10), (0, -46)], 1.8, (190, 190, 195))
    pen.polygon([(0, -46), (30, -42), (26, -34), (30, -24), (0, -26)], rgb)
    pen.polygon([(0, -39), (28, -36), (27, -31), (0, -33)], (245, 245, 240), edge=1)


def book(pen: Pen, rgb: RGB) -> None:
    pen.polygon([(-12, -7), (0, -4), (12, -7), (12, 8), (0, 11), (-12, 8)], rgb)
    pen.polygon([(-10, -8), (0, -5), (10, -8), (10, 5), (0, 8), (-10, 5)], (248, 246, 236))
    pen.limb([(0, -5), (0, 8)], 1, (120, 120, 120), edge=1)


def flower(pen: Pen, rgb: RGB) -> None:
    pen.limb([(0, 8), (0, -14)], 3.4, (50, 130, 55))
    pen.ellipse(5, -1, 5.5, 3, (50, 130, 55))
    pen.ellipse(-5, 2, 5.5, 3, (50, 130, 55))
    for x, y in ((-7, -18), (7, -18), (-4.5, -26), (4.5, -26), (0, -13)):
        pen.ellipse(x, y, 5.6, 5.6, rgb)
    pen.ellipse(0, -20, 4.2, 4.2, (250, 210, 60))


def camera(pen: Pen, rgb: RGB) -> None:
    pen.box(-10, -8, 10, 6, rgb)
    pen.box(-5, -12, 4, -8, rgb)
    pen.ellipse(0, -1, 5.5, 5.5, (200, 205, 210))
    pen.ellipse(0, -1, 3, 3, (40, 60, 90))


def bucket(pen: Pen, rgb: RGB) -> None:
    pen.ring(0, 4, 8, 1.2, (90, 90, 95))
    pen.polygon([(-9, 4), (9, 4), (7, 20), (-7, 20)], rgb)
    pen.ellipse(0, 4, 9, 2.4, shade(rgb, 0.65))


def cup(pen: Pen, rgb: RGB) -> None:
    pen.ring(7, -2, 4, 1.8, rgb)
    pen.polygon([(-6, -9), (6, -9), (5, 6), (-5, 6)], rgb)
    pen.ellipse(0, -9, 6, 1.8, shade(rgb, 0.6))


def guitar(pen: Pen, rgb: RGB) -> None:
    pen.limb([(6, -3), (32, -16)], 5, shade(rgb, 0.7))
    pen.limb([(32, -16), (38, -19)], 7, shade(rgb, 0.7))
    pen.ellipse(-10, 6, 14, 14, rgb)
    pen.ellipse(4, -2, 10, 10, rgb)
    pen.ellipse(-10, 6, 13, 13, rgb, edge=1)
    pen.ellipse(-3, 2, 4, 4, DARK, edge=1)


def ball(pen: Pen, rgb: RGB) -> None:
    pen.ellipse(0, -9, 9, 9, rgb)
    pen.polygon([(-8.4, -11), (8.4, -11), (8.4, -7), (-8.4, -7)], (246, 246, 240), edge=1)
    pen.ellipse(-3, -13, 2, 2, (255, 255, 255), edge=1)


# ---------------------------------------------------------------- standing


def tree(pen: Pen, rgb: RGB) -> None:
    pen.polygon([(-6, 0), (-4, -50), (4, -50), (6, 0)], (112, 78, 48))
    for x, y, r in ((-20, -62, 22), (20, -62, 22), (0, -84, 25), (0, -62, 24)):
        pen.ellipse(x, y, r, r * 0.9, rgb)
    for x, y in ((-22, -66), (4, -92), (22, -60), (-4, -70)):
        pen.ellipse(x, y, 6, 5, shade(rgb, 1.25), edge=1)


def bench(pen: Pen, rgb: RGB) -> None:
    for x in (-31, 31):
        pen.limb([(x, -40), (x, 0)], 3.4, (70, 70, 74))
    for y in (-38, -30):
        pen.limb([(-36, y), (36, y)], 4.5, rgb)
    pen.polygon([(-36, -21), (36, -21), (39, -15), (-39, -15)], rgb)


def chair(pen: Pen, rgb: RGB) -> None:
    for x in (-14, 14):
        pen.limb([(x, -20), (x, 0)], 3, shade(rgb, 0.8))
    pen.limb([(-14, -20), (-15, -52)], 4, rgb)
    pen.limb([(-15, -50), (-15, -34)], 6, rgb)
    pen.polygon([(-17, -25), (15, -25), (18, -19), (-17, -19)], rgb)


def table(pen: Pen, rgb: RGB) -> None:
    for x in (-30, 30):
        pen.limb([(x, -34), (x, 0)], 4, shade(rgb, 0.8))
    pen.polygon([(-34, -42), (34, -42), (40, -34), (-40, -34)], rgb)
    pen.box(-40, -34, 40, -30, shade(rgb, 0.8))


def fence(pen: Pen, rgb: RGB) -> None:
    for y in (-26, -12):
        pen.limb([(-54, y), (54, y)], 3.6, rgb)
    for i in range(8):
        x = -49 + i * 14
        pen.polygon([(x - 3.5, 0), (x - 3.5, -32), (x, -38), (x + 3.5, -32), (x + 3.5, 0)], rgb)


def rock(pen: Pen, rgb: RGB) -> None:
    pen.polygon([(-34, 0), (-29, -16), (-14, -26), (10, -27), (27, -15), (35, 0)], rgb)
    pen.polygon([(-14, -26), (10, -27), (0, -14), (-17, -13)], shade(rgb, 1.2), edge=1)


def crate(pen: Pen, rgb: RGB) -> None:
    pen.box(-19, -28, 19, 0, rgb)
    pen.limb([(-17, -26), (17, -2)], 3, shade(rgb, 0.75), edge=1)
    pen.limb([(17, -26), (-17, -2)], 3, shade(rgb, 0.75), edge=1)


def house(pen: Pen, rgb: RGB) -> None:
    pen.box(-44, -58, 44, 0, rgb)
    pen.polygon([(-52, -56), (0, -94), (52, -56)], (150, 66, 52))
    pen.box(-9, -34, 9, 0, (96, 64, 42))
    for x in (-28, 28):
        pen.box(x - 9, -46, x + 9, -28, (190, 216, 230))
        pen.limb([(x, -46), (x, -28)], 1.6, (240, 240, 240), edge=1)


def tent(pen: Pen, rgb: RGB) -> None:
    pen.polygon([(-46, 0), (0, -54), (46, 0)], rgb)
    pen.polygon([(-13, 0), (0, -40), (13, 0)], shade(rgb, 0.45))
    pen.limb([(0, -54), (0, -60)], 2, DARK, edge=1)


def lamp(pen: Pen, rgb: RGB) -> None:
    pen.limb([(0, 0), (0, -88)], 3, (62, 64, 70))
    pen.box(-7, -3, 7, 0, (62, 64, 70))
    pen.polygon([(-9, -88), (9, -88), (6, -104), (-6, -104)], rgb)
    pen.polygon([(-9, -104), (9, -104), (0, -110)], (62, 64, 70))


def snowman(pen: Pen, rgb: RGB) -> None:
    for y, r in ((-16, 18), (-44, 14), (-66, 10)):
        pen.ellipse(0, y, r, r, (250, 250, 252), edge=0.75)
    pen.polygon([(0, -66), (14, -63), (0, -62)], (240, 130, 40))
    for x in (-3.5, 3.5):
        pen.ellipse(x, -69, 1.4, 1.4, DARK, edge=1)
    pen.box(-8, -88, 8, -74, rgb)
    pen.box(-13, -76, 13, -73, rgb)
    for y in (-50, -42):
        pen.ellipse(0, y, 1.6, 1.6, DARK, edge=1)


def castle(pen: Pen, rgb: RGB) -> None:
    pen.box(-24, -18, 24, 0, rgb)
    for x in (-24, 0, 24):
        high = 40 if x == 0 else 30
        pen.box(x - 8, -high, x + 8, 0, rgb)
        pen.polygon([(x - 10, -high), (x, -high - 13), (x + 10, -high)], shade(rgb, 0.85))
    pen.dome(0, 0, 5, 12, shade(rgb, 0.5))


def sign(pen: Pen, rgb: RGB) -> None:
    pen.limb([(0, 0), (0, -28)], 5, (84, 88, 96))
    pen.polygon([(-20, -46), (-10, -63), (10, -63), (20, -46), (10, -29), (-10, -29)], rgb)
    pen.box(-10, -49, 10, -43, (248, 248, 244), edge=1)


THINGS = {
    "balloon": balloon,
    "umbrella": umbrella,
    "kite": kite,
    "flag": flag,
    "book": book,
    "flower": flower,
    "camera": camera,
    "bucket": bucket,
    "cup": cup,
    "guitar": guitar,
    "ball": ball,
    "tree": tree,
    "bench": bench,
    "chair": chair,
    "table": table,
    "fence": fence,
    "rock": rock,
    "box": crate,
    "house": house,
    "tent": tent,
    "lamp": lamp,
    "snowman": snowman,
    "castle": castle,
    "sign": sign,
}
