"""What the writers share: a caption cut at its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groundling.formats.grounded import Grounded, Place, View
from groundling.types import Box

PLAIN = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", "\n": " ", "\r": " ", "\t": " "})


def plain(text: str) -> str:
    """Text that holds no sign of a format: angle and square brackets become round ones."""
    return text.translate(PLAIN)


def cut(grounded: Grounded, left_out: list[str], *, unnamed: bool = False) -> Iterator[tuple[str, str, Place | None]]:
    """(text before, phrase, place) along the caption; at last (rest, "", None). Why a place cannot be written goes to
    `left_out`: no box, no name (unless `unnamed`), or words that another place has already."""
    at = 0
    for place in sorted(grounded.places, key=lambda place: place.span):
        start, end = place.span
        if not place.boxes:
            left_out.append("it has no box")
        elif start == end and not unnamed:
            left_out.append("it names nothing")
        elif start < at:
            left_out.append("its words are in another place, too")
        else:
            yield plain(grounded.text[at:start]), plain(grounded.text[start:end]), place
            at = end
    yield plain(grounded.text[at:]), "", None


def named_boxes(grounded: Grounded, left_out: list[str]) -> Iterator[tuple[str, Box]]:
    """Each box with its phrase, for formats that hold no caption."""
    for place in grounded.places:
        if not place.boxes:
            left_out.append("it has no box")
        for box in place.boxes:
            yield " ".join(plain(grounded.phrase(place)).split()), box


def on_grid(box: Box, view: View, bins: int) -> tuple[int, int, int, int]:
    """The numbers of a box on a grid from 0 to `bins`, to the nearest, xyxy."""
    x1, y1, x2, y2 = (max(0.0, min(1.0, value)) for value in shares(box, view))
    return round(x1 * bins), round(y1 * bins), round(x2 * bins), round(y2 * bins)


def in_bins(box: Box, view: View, bins: int) -> tuple[int, int, int, int]:
    """The bins that the corners of a box fall into, 0 to `bins` - 1, xyxy."""
    x1, y1, x2, y2 = (max(0, min(bins - 1, int(value * bins))) for value in shares(box, view))
    return x1, y1, x2, y2


def shares(box: Box, view: View) -> Sequence[float]:
    """A box as parts of the width and height of the image."""
    return box[0] / view.width, box[1] / view.height, box[2] / view.width, box[3] / view.height
