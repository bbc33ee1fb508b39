"""Where clothes are: a shirt is on the upper body of a person, trousers are on the legs.

The head is about as high as a fixed share of the width of a person's box, as long as that is a plausible share of its
height, so that full figures and portraits are both served. The upper body begins just above the chin and is two heads
high; the legs begin below it. A region r fits a garment by

    w max_h  IoU(r, part of h) · p_h / max p

over all regions h, p being the softmax of the similarity of h with "person". It is added to s of eq. 1 where a box
is chosen, as colours are (`inference.colours`). w and the shares were chosen on the validation images of Flickr8k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.text.vocab import last_word

Floats = NDArray[np.float32]

WEIGHT = 0.25  # w
PERSON = "person"
HEAD = 0.4  # height of a head, in widths of the person's box
LEAST, MOST = 0.12, 0.6  # heights of the person's box that a head may have


def any_garment(nouns: Sequence[str]) -> bool:
    return not GARMENTS.keys().isdisjoint(map(last_word, nouns))


def garment_fit(
    boxes: Floats, frame: NDArray[np.int64], nouns: Sequence[str], person: Floats, temperature: float
) -> Floats:
    """(P, R): how well the regions fit each noun that is a garment. boxes: (R, 4). frame: (R,), of a clip: a garment is
    in the frame of its person. person: (R,), similarity with "person"."""
    likely = np.exp((person - person.max()) / np.float32(temperature)) * (frame[:, None] == frame)
    fit = np.zeros((len(nouns), len(boxes)), np.float32)
    for row, noun in zip(fit, nouns, strict=True):
        if (last := last_word(noun)) in GARMENTS:
            row += WEIGHT * (iou_of_arrays(boxes, GARMENTS[last](boxes)) * likely).max(1)
    return fit


def upper_body(boxes: Floats) -> Floats:
    """(R, 4) of persons -> (R, 4)"""
    left, top, right, bottom = boxes.T
    head, side = _head(boxes), 0.05 * (right - left)
    chin = top + 0.9 * head
    return np.stack([left + side, chin, right - side, np.minimum(chin + 2 * head, bottom)], 1)


def legs(boxes: Floats) -> Floats:
    """(R, 4) of persons -> (R, 4)"""
    left, top, right, bottom = boxes.T
    side = 0.1 * (right - left)
    hip = np.minimum(top + 2.7 * _head(boxes), top + 0.6 * (bottom - top))
    return np.stack([left + side, hip, right - side, bottom], 1)


def _head(boxes: Floats) -> Floats:
    """(R,) heights of heads"""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return np.asarray((HEAD * width).clip(LEAST * height, MOST * height))


_UPPER = (
    *("shirt", "t-shirt", "tshirt", "tee-shirt", "sweater", "sweatshirt", "hoodie", "vest", "blouse", "jersey"),
    *("jacket", "coat"),
)
GARMENTS: dict[str, Callable[[Floats], Floats]] = {
    **{noun: upper_body for one in _UPPER for noun in (one, f"{one}s")},
    **{noun: legs for noun in ("skirt", "skirts", "shorts", "pants", "jeans", "trousers")},
}
