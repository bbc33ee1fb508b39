"""The four verdicts, and the numbers that decide between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groundling.boxes import iou_of_arrays
from groundling.errors import DataError
from groundling.formats.grounded import Place
from groundling.inference.evidence import read_calibration
from groundling.types import Box

GROUNDED = "grounded"
WRONG_PLACE = "wrong place"  # the caption came with a box, and that overlaps none of the likely places
NOT_THERE = "not there"
CANNOT_TELL = "cannot tell"  # a word that the grounder never learned
VERDICTS = (GROUNDED, WRONG_PLACE, NOT_THERE, CANNOT_TELL)

FILE = "audit.json"  # beside the grounder
FORMAT = 1


@dataclass(frozen=True)
class Thresholds:
    """Chosen for one grounder, and kept with it."""

    present: float = 0.3  # a phrase that is less likely to be in the image is not there
    overlap: float = 0.1  # intersection over union with a likely place from which a given box is right
    learned: int = 1500  # so many of the most frequent words count as learned, where the region source knows no words

    def __post_init__(self) -> None:
        if not (0 <= self.present <= 1 and 0 <= self.overlap <= 1 and self.learned >= 1):
            raise DataError("present and overlap are from 0 to 1, learned is 1 or more")

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "present": self.present, "overlap": self.overlap, "learned": self.learned}


def read_thresholds(folder: Path) -> Thresholds:
    """Those that are kept with a grounder; else the defaults, `present` being what its evidence was fitted to."""
    path = folder / FILE
    if not path.exists():
        fitted = read_calibration(folder)
        below = (
            None
            if fitted is None
            else fitted.not_there
            if fitted.caption_not_there is None
            else fitted.caption_not_there
        )
        return Thresholds() if below is None else Thresholds(present=below)
    try:
        row = json.loads(path.read_bytes())
        if row["format"] != FORMAT:
            raise DataError(f"it has format {row['format']!r}, this version reads {FORMAT}")
        return Thresholds(float(row["present"]), float(row["overlap"]), int(row["learned"]))
    except (OSError, KeyError, TypeError, ValueError, RecursionError, DataError) as error:
        raise DataError(f"{path} is damaged; remove it to use the defaults: {error}") from error


# ---------------------------------------------------------------- is a given place right?


def best_overlap(place: Place, likely: Sequence[Box]) -> float:
    """How well what a caption gives fits the likely places: the best intersection over union of a box with one of
    them, or with the box around them all; 1 for a point inside one, else 0."""
    if not likely:
        return 0.0
    around = tuple(f(box[i] for box in likely) for i, f in enumerate((min, min, max, max)))
    targets = [*likely, around]
    boxes = iou_of_arrays(np.array(place.boxes, float), np.array(targets, float)).flat if place.boxes else ()
    points = [float(x1 <= x <= x2 and y1 <= y <= y2) for x, y in place.points for x1, y1, x2, y2 in likely]
    return float(max([*boxes, *points], default=0.0))
