"""How likely is it that a box is right? What the model's score says of it, fitted where the truth is known.

The file `labels.json` beside a grounder holds the fit and names the weights that it was made with: it is not used with
others. Without it, the score itself is the confidence.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.metrics.calibration import Isotonic, isotonic

log = logging.getLogger(__name__)

FILE = "labels.json"
FORMAT = 1
FEW = 20  # boxes that a calibration needs at least


@dataclass(frozen=True)
class Calibration:
    """From the score of a box to the probability that it is right: one function for one thing, one for several."""

    single: Isotonic
    several: Isotonic
    grounder: str = ""  # digest of the weights that it was fitted with
    boxes: int = 0  # that it was fitted on

    def probability(self, scores: Sequence[float], several: bool) -> list[float]:
        fitted = self.several if several else self.single
        return [float(p) for p in fitted(np.array(scores, float))]

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"format": FORMAT, "grounder": self.grounder, "boxes": self.boxes}
        return row | {"single": self.single.to_json(), "several": self.several.to_json()}

    @staticmethod
    def from_json(row: Any) -> Calibration:
        """The inverse of `to_json`; DataError for anything else."""
        match row:
            case {"format": 1, "grounder": str(digest), "boxes": int(boxes), "single": dict(), "several": dict()}:
                one, more = (Isotonic.from_json(row[name]) for name in ("single", "several"))
                return Calibration(one, more, digest, boxes)
        raise DataError(f"not a calibration of labels of format {FORMAT}")


SAME = Isotonic((0.0, 1.0), (0.0, 1.0))
RAW = Calibration(SAME, SAME)  # the score as it is


@dataclass(frozen=True)
class Judged:
    """A box whose truth is known."""

    score: float
    right: bool
    several: bool
    id: str = ""  # of its image


def fit(judged: Sequence[Judged], grounder: str = "") -> Calibration:
    """The calibration of these boxes; DataError where they are too few. Kinds with too few boxes share one function."""
    if len(judged) < FEW:
        raise DataError(f"{len(judged)} judged boxes are too few to calibrate with: {FEW} are needed")
    return Calibration(_fitted(judged, False), _fitted(judged, True), grounder, len(judged))


def _fitted(judged: Sequence[Judged], several: bool) -> Isotonic:
    kind = [one for one in judged if one.several == several]
    kind = kind if len(kind) >= FEW else list(judged)
    return isotonic(np.array([one.score for one in kind]), np.array([float(one.right) for one in kind]))


def beside(folder: Path, digest: str) -> Calibration | None:
    """The calibration in a grounder's folder; None where there is none, or it is that of other weights."""
    path = folder / FILE
    if not path.exists():
        return None
    found = read(path)
    if found.grounder != digest:
        log.warning("%s was fitted with other weights and is not used; fit it again: groundling score labels", path)
        return None
    return found


def read(path: Path) -> Calibration:
    """DataError names a file that is damaged."""
    try:
        return Calibration.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError, DataError) as error:
        raise DataError(f"{path} is damaged; fit it again with `groundling score labels`: {error}") from error
