"""People. A grown-up is 100 units tall and stands on (0, 0); men and women differ by their heads alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groundling.scenes.pen import RGB, Pen, Point, shade

HANDS: dict[str, Point] = {  # where the leading hand is, from the shoulder
    "down": (5, 31),
    "out": (22, 13),
    "up": (14, -27),
    "hug": (9, 18),
}
SEAT = 30.0  # height of the hips of somebody who sits


@dataclass(frozen=True)
class Build:
    """Proportions: how far down from the top (negative y) each joint is when standing."""

    head: float  # radius
    face: float  # y of the middle of the head
    shoulder: float
    hip: float
    half: float  # half the width of the shoulders


ADULT = Build(head=9.5, face=-88, shoulder=-74, hip=-42, half=12)
CHILD = Build(head=14.5, face=-84, shoulder=-67, hip=-36, half=13)

LEGS: dict[str, tuple[tuple[Point, Point], tuple[Point, Point]]] = {  # knee and foot of each leg, hip at (0, -1)
    "stand": (((-6, -0.5), (-6, 0)), ((6, -0.5), (6, 0))),
    "walk": (((-6, -0.5), (-14, 0)), ((8, -0.52), (13, 0))),
    "run": (((-6, -0.42), (-24, -0.28)), ((15, -0.62), (17, 0))),
    "jump": (((-12, -0.6), (-20, -0.15)), ((13, -0.65), (10, -0.12))),
    "sit": (((12, -0.95), (13, 0)), ((16, -0.9), (18, 0))),
    "tuck": (((9, -0.95), (3, -0.8)), ((12, -0.95), (6, -0.8))),
    "ride": (((8, -0.75), (6, -0.15)), ((11, -0.8), (11, -0.1))),
}


def build(name: str) -> Build:
    return ADULT if name in ("man", "woman") else CHILD


def hand(name: str, pose: str, arm: str) -> Point:
    """Where the leading hand is, so that something can be put into it."""
    body = build(name)
    across, down = HANDS[arm]
    return body.half - 2 + across, body.shoulder + _drop(body, pose) + 3 + down


def person(
    pen: Pen, name: str, pose: str, arm: str, skin: RGB, hair: RGB, wears: Mapping[str, tuple[int, RGB]]
) -> None:
    """`wears` maps a garment to its owner number and colour; a garment is drawn for itself, the rest for the person."""
    body, me = build(name), pen.owner
    drop = _drop(body, pose)
    top = pen.at(0, drop)
    _legs(pen, body, pose, drop, skin, wears)
    owner, cloth = wears.get("dress") or wears["shirt"]
    _arm(top.of(owner), top.of(me), body, -1, "down" if arm != "hug" else "hug", cloth, skin)
    if name in ("woman", "girl"):
        _back_hair(top, name, body, hair)
    _torso(top.of(owner), body, cloth, "dress" in wears)
    top.limb([(0, body.face + body.head), (0, body.shoulder + 1)], 6, skin)
    _head(top, name, body, skin, hair)
    for garment in ("scarf", "hat", "helmet"):
        if garment in wears:
            number, rgb = wears[garment]
            _GARMENTS[garment](top.of(number), body, rgb)
    _arm(top.of(owner), top.of(me), body, 1, arm, cloth, skin)


def _drop(body: Build, pose: str) -> float:
    """How much lower the upper body is than in somebody who stands."""
    return -body.hip - SEAT if pose in ("sit", "ride", "tuck") else 0.0


def _legs(pen: Pen, body: Build, pose: str, drop: float, skin: RGB, wears: Mapping[str, tuple[int, RGB]]) -> None:
    high = -(body.hip + drop)
    lower = wears.get("pants") or wears.get("shorts")
    if lower:
        pen.of(lower[0]).box(3 - body.half, -high - 3, body.half - 3, 3 - high, lower[1])
    for side, (knee, foot) in zip((-1, 1), LEGS[pose], strict=True):
        hip = (side * 4.5, -high)
        bent, end = (knee[0], knee[1] * high), (foot[0], foot[1] * high - 2)
        pen.limb([hip, bent, end], 6.5, skin)
        if lower:
            thigh = 0.2 * hip[0] + 0.8 * bent[0], 0.2 * hip[1] + 0.8 * bent[1]
            path = [hip, bent, (end[0], end[1] - 2)] if "pants" in wears else [hip, thigh]
            pen.of(lower[0]).limb(path, 9, lower[1])
        pen.limb([end, (end[0] + 4, end[1])], 5, (70, 55, 50))


def _torso(pen: Pen, body: Build, cloth: RGB, dress: bool) -> None:
    half, shoulder, hip = body.half, body.shoulder, body.hip
    bottom = [(half + 5, hip + 16), (-half - 5, hip + 16)] if dress else [(half - 2, hip + 2), (-half + 2, hip + 2)]
    waist = [(half - 4, hip)] if dress else []
    back = [(-half + 4, hip)] if dress else []
    pen.polygon([(-half + 2, shoulder), (half - 2, shoulder), *waist, *bottom, *back], cloth)


def _arm(sleeve: Pen, bare: Pen, body: Build, side: int, arm: str, cloth: RGB, skin: RGB) -> None:
    across, down = HANDS[arm]
    start = (side * (body.half - 2), body.shoulder + 3)
    end = (start[0] + side * across if arm != "hug" else start[0] - side * 4 + across, start[1] + down)
    elbow = ((start[0] + end[0]) / 2 + side * 3, (start[1] + end[1]) / 2 + 3)
    bare.limb([start, elbow, end], 5, skin)
    sleeve.limb([start, elbow], 6.5, cloth)
    bare.ellipse(*end, 3.2, 3.2, skin)


def _back_hair(pen: Pen, name: str, body: Build, hair: RGB) -> None:
    r, y = body.head, body.face
    if name == "woman":
        pen.ellipse(0, y + 1, r + 3.5, r + 3, hair)
        pen.polygon([(-r - 3.5, y), (r + 3.5, y), (r + 4, y + r + 12), (-r - 4, y + r + 12)], hair)
    else:
        for side in (-1, 1):
            pen.ellipse(side * (r + 5), y + 3, 5, 8, hair)
            pen.ellipse(side * (r + 1), y - 3, 2.5, 2.5, (230, 70, 110))


def _head(pen: Pen, name: str, body: Build, skin: RGB, hair: RGB) -> None:
    r, y = body.head, body.face
    pen.ellipse(0, y, r, r * 1.08, skin)
    cover = 0.15 if name in ("woman", "girl") else 0.3
    pen.dome(0, y - r * cover, r + 1, r * 0.95, hair)
    if name == "man":
        pen.polygon(
            [(-r * 0.8, y + r * 0.4), (r * 0.8, y + r * 0.4), (r * 0.4, y + r * 1.15), (-r * 0.4, y + r * 1.15)], hair
        )
    if name == "boy":
        pen.polygon([(-r * 0.3, y - r * 0.9), (r * 0.5, y - r * 1.55), (r * 0.6, y - r * 0.8)], hair)
    for side in (-1, 1):
        pen.ellipse(side * r * 0.38 + 1, y + r * 0.1, r * 0.13, r * 0.16, (30, 25, 25), edge=1)
    pen.ellipse(1, y + r * 0.58, r * 0.3, r * 0.12, (190, 70, 70) if name != "man" else (230, 180, 170), edge=1)


def _hat(pen: Pen, body: Build, rgb: RGB) -> None:
    r, y = body.head, body.face - body.head * 0.55
    pen.box(-r * 0.85, y - r * 0.95, r * 0.85, y, rgb)
    pen.ellipse(0, y, r * 1.75, r * 0.26, rgb)


def _helmet(pen: Pen, body: Build, rgb: RGB) -> None:
    r, y = body.head, body.face - body.head * 0.1
    pen.dome(0, y, r * 1.28, r * 1.35, rgb)
    pen.limb([(-r * 0.5, y - r * 1.0), (-r * 0.6, y - r * 0.3)], 1.8, shade(rgb, 0.55), edge=1)
    pen.limb([(r * 0.5, y - r * 1.0), (r * 0.6, y - r * 0.3)], 1.8, shade(rgb, 0.55), edge=1)
    pen.limb([(-r, y), (-r * 0.7, y + r * 0.95)], 1.2, (50, 50, 50), edge=1)


def _scarf(pen: Pen, body: Build, rgb: RGB) -> None:
    y = body.face + body.head
    pen.limb([(-8, y + 2), (8, y + 2)], 6, rgb)
    pen.limb([(5, y + 3), (8, y + 22)], 6, rgb)


_GARMENTS = {"hat": _hat, "helmet": _helmet, "scarf": _scarf}
