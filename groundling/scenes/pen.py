"""A pen that draws every shape twice: its colour on the picture, its owner's number on a map of who is seen where.

The map is the truth: what is left of an owner on it when all is drawn is what can be seen of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import ImageDraw

RGB = tuple[int, int, int]
Point = tuple[float, float]


def shade(rgb: RGB, light: float) -> RGB:
    """Darker (light < 1) or brighter (light > 1)."""
    r, g, b = (min(255, max(0, round(c * light))) for c in rgb)
    return r, g, b


def blend(a: RGB, b: RGB, share: float) -> RGB:
    """`share` of b in a."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


@dataclass(frozen=True)
class Pen:
    """Where, how large, which way round and for whom it draws. x goes right, y goes down, as in pixels."""

    picture: ImageDraw.ImageDraw
    owners: ImageDraw.ImageDraw
    zoom: float  # canvas pixels per unit
    x: float = 0.0
    y: float = 0.0
    flip: bool = False
    owner: int = 0

    def at(self, x: float, y: float, scale: float = 1.0, flip: bool = False) -> Pen:
        """A pen in a frame of its own, with its origin at (x, y) of this one."""
        ox, oy = self._canvas((x, y))
        return replace(self, x=ox, y=oy, zoom=self.zoom * scale, flip=self.flip != flip)

    def of(self, owner: int) -> Pen:
        return replace(self, owner=owner)

    def polygon(self, points: Sequence[Point], rgb: RGB, edge: float = 0.7) -> None:
        self._fill("polygon", [self._canvas(p) for p in points], rgb, edge)

    def box(self, left: float, top: float, right: float, bottom: float, rgb: RGB, edge: float = 0.7) -> None:
        self._fill("rectangle", self._corners(left, top, right, bottom), rgb, edge)

    def ellipse(self, x: float, y: float, rx: float, ry: float, rgb: RGB, edge: float = 0.7) -> None:
        self._fill("ellipse", self._corners(x - rx, y - ry, x + rx, y + ry), rgb, edge)

    def dome(self, x: float, y: float, rx: float, ry: float, rgb: RGB, edge: float = 0.7) -> None:
        """The upper half of an ellipse around (x, y)."""
        corners = self._corners(x - rx, y - ry, x + rx, y + ry)
        self.picture.chord(corners, 180, 360, fill=rgb, outline=shade(rgb, edge), width=self._edge())
        self.owners.chord(corners, 180, 360, fill=self.owner)

    def limb(self, points: Sequence[Point], width: float, rgb: RGB, edge: float = 0.7) -> None:
        """A thick line with round joints and ends."""
        edging = self._edge() if edge < 1 else 0
        thick = max(1.0, width * self.zoom) - edging
        path = [self._canvas(p) for p in points]
        if edging:
            self._stroke(self.picture, path, thick + 2 * edging, shade(rgb, edge))
        self._stroke(self.picture, path, thick, rgb)
        self._stroke(self.owners, path, thick + 2 * edging, self.owner)

    def ring(self, x: float, y: float, r: float, width: float, rgb: RGB) -> None:
        """A circle that is empty inside."""
        corners, thick = self._corners(x - r, y - r, x + r, y + r), max(1, round(width * self.zoom))
        self.picture.ellipse(corners, outline=rgb, width=thick)
        self.owners.ellipse(corners, outline=self.owner, width=thick)

    def _canvas(self, point: Point) -> Point:
        """Rounded, so that no platform's last bit of a float can move a pixel."""
        across = -point[0] if self.flip else point[0]
        return round(self.x + across * self.zoom), round(self.y + point[1] * self.zoom)

    def _corners(self, left: float, top: float, right: float, bottom: float) -> list[Point]:
        (x0, y0), (x1, y1) = self._canvas((left, top)), self._canvas((right, bottom))
        return [(min(x0, x1), min(y0, y1)), (max(x0, x1), max(y0, y1))]

    def _edge(self) -> int:
        return max(1, round(0.9 * self.zoom))

    def _fill(self, shape: str, where: list[Point], rgb: RGB, edge: float) -> None:
        outline = shade(rgb, edge) if edge < 1 else None
        getattr(self.picture, shape)(where, fill=rgb, outline=outline, width=self._edge())
        getattr(self.owners, shape)(where, fill=self.owner)

    def _stroke(self, draw: ImageDraw.ImageDraw, path: list[Point], thick: float, fill: RGB | int) -> None:
        draw.line(path, fill=fill, width=max(1, round(thick)))
        if thick >= 4:
            r = round(thick / 2)
            for x, y in path:
                draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)
