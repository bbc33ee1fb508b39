"""How much of each region has a colour: what tells "a black dog" from a brown one.

Each pixel of the picture, made small, has one of twelve colours, by its hue, saturation and value. What a region has of
a colour is its share of the pixels in the middle of the region, where less of the background is. A region fits the
colours of a phrase by

    w Σ_c log (share of c + ε)

over its words for colours, which is added to s of eq. 1 where a box is chosen (`PhraseGrounder.rank`). w and ε, and
from where on a hue has which name, were chosen on one half of the validation images of Flickr8k.

Whether a thing has the colour that a caption gives it:

    logit P = a + b log (q + ε) / (u + ε) + c (logit p − logit π)

q is the share of the colour in the regions, each weighing as likely as it is the thing, without its colour; u what q
usually is for that word; p and π how likely the word is in the image, and in any photo, by the region source. a, b, c
and u were fitted on one half of the validation images of COCO: colours that captions name against other ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling.metrics.calibration import logit, sigmoid
from groundling.text.colours import COLOURS, WORDS

Floats = NDArray[np.float32]

WEIGHT, LEAST = 0.1, 0.05  # w and ε
SIDE = 160  # pixels of the longer side of the picture whose colours are named
USUAL = {  # u of the words that enough captions of the fit have
    "black": 0.325,
    "white": 0.172,
    "gray": 0.197,
    "grey": 0.197,
    "green": 0.097,
    "blue": 0.152,
    "brown": 0.237,
    "red": 0.139,
    "pink": 0.088,
    "orange": 0.262,
    "yellow": 0.161,
    "purple": 0.047,
}
COEFFICIENTS = (0.366, 1.276, 1.062)  # a, b, c
OTHER_COLOUR = 0.18  # P below which a thing has another colour: 5 % of the true ones of the fit are below
EDGE = 0.2  # of a region's width and height on each side that are no part of its middle


def colour_fit(colours: Floats, words: Sequence[Sequence[str]]) -> Floats:
    """(R, C) shares -> (P, R): how well each region fits the words for colours of each phrase; 0 where it has none."""
    fit = np.zeros((len(words), len(colours)), np.float32)
    for row, some in zip(fit, words, strict=True):
        for word in some:
            share = colours[:, [COLOURS.index(name) for name in WORDS[word]]].sum(1)
            row += WEIGHT * np.log(share + LEAST)
    return fit


def has_colour(colours: Floats, weights: Floats, word: str, p: float, prior: float) -> float:
    """P of a word of USUAL. colours: (R, C) shares; weights: (R,), how likely each region is the thing; p, prior: how
    likely the word is in the image, and in any photo."""
    share = float(weights @ colours[:, [COLOURS.index(name) for name in WORDS[word]]].sum(1))
    a, b, c = COEFFICIENTS
    x = (
        a
        + b * math.log((share + LEAST) / (USUAL[word] + LEAST))
        + c * float(logit(np.array(p)) - logit(np.array(prior)))
    )
    return float(sigmoid(np.array(x)))


def small(picture: Image.Image) -> Image.Image:
    """The picture as its colours are named."""
    scale = min(1.0, SIDE / max(picture.size))
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    return picture.convert("RGB").resize(size, Image.Resampling.BOX)


def colour_shares(picture: Image.Image, boxes: NDArray[np.floating], size: tuple[float, float]) -> Floats:
    """(R, C): the share of each colour in the middle of each box, by sums over the corners of the picture, which may be
    a smaller copy of an image of this size, in whose pixels the boxes (R, 4) are."""
    names = colour_names(small(picture))
    boxes = boxes / np.maximum(np.array([*size, *size], np.float32), 1)
    height, width = names.shape
    sums = np.zeros((height + 1, width + 1, len(COLOURS)), np.float32)
    sums[1:, 1:] = (names[..., None] == np.arange(len(COLOURS))).cumsum(0).cumsum(1)
    left, top, right, bottom = boxes.astype(np.float64).T
    across, down = EDGE * (right - left), EDGE * (bottom - top)
    x1, x2 = _ends(left + across, right - across, width)
    y1, y2 = _ends(top + down, bottom - down, height)
    counts = sums[y2, x2] - sums[y1, x2] - sums[y2, x1] + sums[y1, x1]
    return np.asarray(counts / counts.sum(1, keepdims=True), np.float32)


def _ends(
    low: NDArray[np.float64], high: NDArray[np.float64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From which pixel to which, one at least."""
    first = np.rint(low * size).astype(np.int64).clip(0, size - 1)
    return first, np.maximum(np.rint(high * size).astype(np.int64).clip(0, size), first + 1)


def colour_names(picture: Image.Image) -> NDArray[np.int8]:
    """(height, width): which of COLOURS each pixel has."""
    levels = np.asarray(picture.convert("HSV"), np.float32) / 255
    hue, saturation, value = levels[..., 0] * 360, levels[..., 1], levels[..., 2]
    grey, warm = saturation < 0.18, (hue < 45) | (hue >= 345)
    named = (  # the first that is true
        ("black", (value < 0.22) | ((value < 0.32) & (saturation < 0.35))),
        ("white", grey & (value > 0.72)),
        ("gray", grey),
        ("tan", (hue >= 10) & (hue < 45) & (saturation < 0.55) & (value >= 0.6)),
        ("brown", warm & (saturation < 0.7) & (value < 0.6)),
        ("red", (hue < 14) | (hue >= 340)),
        ("orange", hue < 42),
        ("yellow", hue < 68),
        ("green", hue < 165),
        ("blue", hue < 258),
        ("purple", hue < 295),
        ("pink", hue >= 0),
    )
    return np.select([where for _, where in named], [np.int8(COLOURS.index(name)) for name, _ in named])
