"""Backgrounds, in units of a 256 by 192 picture. Each is textured, so that no region of it is one plain colour."""

from __future__ import annotations

from random import Random

from groundling.scenes.pen import RGB, Pen, blend, shade

WIDTH, HEIGHT = 256, 192
HORIZON = 92.0


def place(pen: Pen, name: str, rng: Random) -> None:
    """Draw everything behind the items. What `pen` owns is nobody's; the caller draws water for itself."""
    _PLACES[name](pen, rng)


def water(pen: Pen, name: str, rng: Random) -> None:
    """The part of a beach or a lake that is water."""
    bottom = 118.0 if name == "beach" else HEIGHT
    top = (58, 134, 178)
    _bands(pen, HORIZON, bottom, top, (92, 172, 200))
    for _ in range(26 if name == "beach" else 70):
        x, y = rng.uniform(-10, WIDTH), rng.uniform(HORIZON + 2, bottom - 2)
        long = 3 + (y - HORIZON) / 8 + rng.uniform(0, 5)
        pen.limb([(x, y), (x + long, y - 1), (x + 2 * long, y)], 1, (118, 184, 208), edge=1)
    if name == "beach":
        for x in range(-8, WIDTH, 13):
            pen.ellipse(x + rng.uniform(0, 6), bottom, 9, 1.8, (240, 246, 246), edge=1)


def _bands(pen: Pen, top: float, bottom: float, above: RGB, below: RGB, step: float = 4.0) -> None:
    """A gradient in steps."""
    n = max(1, round((bottom - top) / step))
    for i in range(n):
        y = top + i * (bottom - top) / n
        pen.box(-1, y, WIDTH + 1, y + (bottom - top) / n, blend(above, below, i / n), edge=1)


def _sky(pen: Pen, rng: Random, above: RGB, below: RGB, clouds: int) -> None:
    _bands(pen, 0, HORIZON + 6, above, below)
    for _ in range(clouds):
        x, y, wide = rng.uniform(0, WIDTH), rng.uniform(8, 44), rng.uniform(12, 24)
        for dx, r in ((-0.7, 0.55), (0, 0.8), (0.7, 0.6)):
            pen.ellipse(x + dx * wide, y, wide * r, wide * r * 0.45, blend(above, (255, 255, 255), 0.8), edge=1)


def _hills(pen: Pen, rng: Random, rgb: RGB, high: float) -> None:
    x = -30.0
    while x < WIDTH + 30:
        wide = rng.uniform(35, 70)
        pen.dome(
            x + wide / 2, HORIZON + 5, wide, rng.uniform(0.5, 1) * high, shade(rgb, rng.uniform(0.94, 1.06)), edge=0.9
        )
        x += wide


def _specks(pen: Pen, rng: Random, n: int, rgb: RGB, top: float = HORIZON + 6) -> None:
    for _ in range(n):
        x, y = rng.uniform(0, WIDTH), rng.uniform(top, HEIGHT)
        pen.ellipse(x, y, rng.uniform(0.5, 1.1), 0.6, shade(rgb, rng.uniform(0.85, 1.12)), edge=1)


def _blades(pen: Pen, rng: Random, n: int, rgb: RGB) -> None:
    for _ in range(n):
        x, y = rng.uniform(0, WIDTH), rng.uniform(HORIZON + 8, HEIGHT + 3)
        tip = (x + rng.uniform(-2, 2), y - rng.uniform(2, 5))
        pen.limb([(x, y), tip], 0.9, shade(rgb, rng.uniform(0.8, 1.15)), edge=1)


def _park(pen: Pen, rng: Random) -> None:
    _sky(pen, rng, (120, 180, 226), (202, 226, 240), 3)
    _hills(pen, rng, (92, 140, 84), 20)
    _bands(pen, HORIZON, HEIGHT, (122, 172, 88), (98, 152, 66))
    _blades(pen, rng, 130, (86, 140, 58))


def _field(pen: Pen, rng: Random) -> None:
    _sky(pen, rng, (142, 190, 222), (226, 230, 222), 2)
    _hills(pen, rng, (150, 160, 104), 30)
    _bands(pen, HORIZON, HEIGHT, (206, 192, 110), (188, 166, 82))
    for x in range(-160, WIDTH + 161, 32):
        pen.limb([(128 + (x - 128) * 0.3, HORIZON + 3), (x, HEIGHT + 2)], 1.2, (188, 170, 90), edge=1)
    _blades(pen, rng, 90, (172, 150, 70))


def _beach(pen: Pen, rng: Random) -> None:
    _sky(pen, rng, (96, 172, 230), (206, 232, 244), 2)
    _bands(pen, 112, HEIGHT, (234, 214, 164), (222, 196, 140))
    _specks(pen, rng, 150, (202, 174, 120), 122)


def _lake(pen: Pen, rng: Random) -> None:
    _sky(pen, rng, (126, 176, 214), (214, 228, 234), 2)
    _hills(pen, rng, (94, 126, 110), 34)


def _snow(pen: Pen, rng: Random) -> None:
    _sky(pen, rng, (172, 190, 208), (220, 226, 234), 0)
    _hills(pen, rng, (206, 216, 228), 32)
    _bands(pen, HORIZON, HEIGHT, (228, 234, 242), (240, 244, 250))
    for _ in range(22):
        x, y = rng.uniform(-10, WIDTH), rng.uniform(HORIZON + 8, HEIGHT)
        pen.limb([(x, y), (x + rng.uniform(8, 22), y + 1)], 1.2, (206, 216, 230), edge=1)
    for _ in range(45):
        pen.ellipse(rng.uniform(0, WIDTH), rng.uniform(0, HORIZON), 1.1, 1.1, (250, 250, 252), edge=1)


def _street(pen: Pen, rng: Random) -> None:
    _sky(pen, rng, (150, 186, 214), (214, 222, 228), 1)
    x = -rng.uniform(0, 25)
    while x < WIDTH:
        wide, top = rng.uniform(34, 56), rng.uniform(14, 42)
        wall = rng.choice([(186, 160, 142), (164, 150, 150), (196, 186, 168), (150, 128, 118), (172, 178, 184)])
        pen.box(x, top, x + wide, HORIZON + 8, wall, edge=0.85)
        for wx in range(1, int(wide // 13) + 1):
            for wy in range(int((HORIZON - top) // 20)):
                left, up = x + wx * wide / (wide // 13 + 1) - 3.5, top + 7 + wy * 19
                pen.box(left, up, left + 7, up + 10, blend(wall, (120, 140, 164), 0.5), edge=1)
        x += wide
    _bands(pen, HORIZON + 6, 122, (196, 192, 186), (184, 180, 174))
    for x in range(-20, WIDTH + 20, 24):
        pen.limb([(x, HORIZON + 7), (128 + (x - 128) * 1.25, 122)], 0.9, (179, 175, 170), edge=1)
    _bands(pen, 122, HEIGHT, (124, 124, 128), (108, 108, 114))
    for x in range(-30, WIDTH, 56):
        pen.polygon([(x + 6, 151), (x + 34, 151), (x + 30, 155), (x, 155)], (226, 220, 190), edge=1)
    _specks(pen, rng, 110, (132, 132, 136), 124)


def _room(pen: Pen, rng: Random) -> None:
    wall = rng.choice([(214, 202, 178), (186, 202, 196), (208, 190, 190), (190, 196, 212)])
    pen.box(-1, -1, WIDTH + 1, 112, wall, edge=1)
    for x in range(4, WIDTH, 15):
        pen.box(x, 0, x + 5, 108, shade(wall, 0.965), edge=1)
    left = rng.uniform(16, 190)
    pen.box(left, 14, left + 42, 58, (236, 232, 222), edge=0.8)
    pen.box(left + 3, 17, left + 39, 55, (164, 204, 228), edge=0.85)
    pen.limb([(left + 21, 17), (left + 21, 55)], 2, (236, 232, 222), edge=1)
    pen.box(-1, 107, WIDTH + 1, 113, (232, 226, 214), edge=0.85)
    _bands(pen, 113, HEIGHT, (176, 132, 90), (160, 116, 76))
    for y in range(122, HEIGHT, 14):
        pen.limb([(0, y), (WIDTH, y)], 0.9, (140, 100, 64), edge=1)
        for x in range(rng.randrange(40), WIDTH, 52):
            pen.limb([(x, y), (x, y + 14)], 0.9, (140, 100, 64), edge=1)


_PLACES = {
    "park": _park,
    "field": _field,
    "beach": _beach,
    "lake": _lake,
    "snow": _snow,
    "street": _street,
    "room": _room,
}
