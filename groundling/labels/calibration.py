"""How likely is it that a box is right (IoU of a half or more)? What is known of the box, fitted where the truth is.

    p = g(σ(b + Σ_i w_i (x_i − m_i) / d_i))

x are the features of a box (`features`), w is a logistic regression with a ridge, and g, which never falls, is fitted
to its answers for images that w was not fitted on. The file `labels.json` beside a grounder holds the fit and names the
weights that it was made with: it is not used with others. Without it, the score itself is the confidence.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.files import read_bytes
from groundling.labels.features import NAMES, log_odds
from groundling.labels.label import PlacedBox
from groundling.metrics.calibration import Isotonic, isotonic, logistic

log = logging.getLogger(__name__)

FILE = "labels.json"
FORMAT = 2
LARGEST = 1 << 20  # bytes of the file
FEW = 20  # boxes that a calibration needs at least
MANY = 500  # boxes from which all features are used, and not the score alone
RIDGE = 3.0
FREE = 1e-6  # ridge of the bias
FOLDS = 5
PRECISION = 0.77  # the threshold is the least confidence from which so many boxes are right; 0.75 is promised
UNFITTED = 0.6  # threshold where nothing was fitted

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Logistic:
    """A logistic regression on some of the features: a row (mean, deviation, weight) for each, and the bias."""

    rows: Mapping[str, tuple[float, float, float]]
    bias: float

    def __call__(self, features: Array) -> Array:
        """(N, len(NAMES)) -> (N,): log-odds. A feature that is not known (NaN) counts as its mean."""
        at = [NAMES.index(name) for name in self.rows]
        mean, deviation, weight = np.array(list(self.rows.values()), float).T
        x = np.nan_to_num((features[:, at] - mean) / deviation, nan=0.0)
        return np.asarray(self.bias + x @ weight)


@dataclass(frozen=True)
class Calibration:
    """From what is known of a box to the probability that it is right."""

    logistic: Logistic
    level: Isotonic  # from the regression's log-odds
    threshold: float  # confidence from which labels are exported by default
    grounder: str = ""  # digest of the weights that it was fitted with
    boxes: int = 0  # that it was fitted on

    def probability(self, features: Array) -> Array:
        """(N, len(NAMES)) -> (N,)"""
        return self.level(self.logistic(features))

    def confidence(self, boxes: Sequence[PlacedBox]) -> list[float]:
        """Of boxes whose score is known, and their features where they are."""
        return [float(p) for p in self.probability(as_features(boxes))] if boxes else []

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"format": FORMAT, "grounder": self.grounder, "boxes": self.boxes}
        row |= {"threshold": self.threshold, "bias": self.logistic.bias, "level": self.level.to_json()}
        return row | {"features": {name: list(values) for name, values in self.logistic.rows.items()}}

    @staticmethod
    def from_json(row: Any) -> Calibration:
        """The inverse of `to_json`; DataError for anything else."""
        match row:
            case {
                "format": 2, "grounder": str(digest), "boxes": int(boxes), "threshold": float() | int() as threshold,
                "bias": float() | int() as bias, "level": dict(level), "features": dict(rows),
            }:  # fmt: skip
                if not (0 <= threshold <= 1 and np.isfinite(bias) and rows):
                    raise DataError("threshold must be from 0 to 1, bias finite, features not empty")
                return Calibration(
                    Logistic({name: _weights(name, values) for name, values in rows.items()}, float(bias)),
                    Isotonic.from_json(level),
                    float(threshold),
                    digest,
                    boxes,
                )
        raise DataError(f"not a calibration of labels of format {FORMAT}")


def _weights(name: str, values: Any) -> tuple[float, float, float]:
    if name not in NAMES:
        raise DataError(f"unknown feature {name!r}; there are {', '.join(NAMES)}")
    try:
        mean, deviation, weight = (float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise DataError(f"feature {name!r}: expected mean, deviation and weight ({error})") from error
    if not (np.isfinite([mean, deviation, weight]).all() and deviation > 0):
        raise DataError(f"feature {name!r}: mean and weight must be finite, the deviation above 0")
    return mean, deviation, weight


def as_features(boxes: Sequence[PlacedBox]) -> Array:
    """(N, len(NAMES)); of a box that came without features only the score is known."""
    out = np.full((len(boxes), len(NAMES)), np.nan)
    for row, placed in zip(out, boxes, strict=True):
        row[:] = placed.features if len(placed.features) == len(NAMES) else np.nan
        row[NAMES.index("log_odds")] = log_odds(placed.score)
    return out


@dataclass(frozen=True)
class CheckedBox:
    """A box whose truth is known."""

    placed: PlacedBox
    right: bool
    id: str = ""  # of its image


# ---------------------------------------------------------------- fitting


def fit(checked: Sequence[CheckedBox], grounder: str = "") -> Calibration:
    """The calibration of these boxes; DataError where they are too few. With less than MANY, of the score alone."""
    if len(checked) < FEW:
        raise DataError(f"{len(checked)} checked boxes are too few to calibrate with: {FEW} are needed")
    names = NAMES if len(checked) >= MANY else ("log_odds",)
    features, right = as_features([one.placed for one in checked]), np.array([float(one.right) for one in checked])
    images = {id: number for number, id in enumerate(dict.fromkeys(one.id for one in checked))}
    fold = np.array([images[one.id] % FOLDS for one in checked])
    odds = np.empty(len(checked))
    for part in np.unique(fold):
        rest = fold != part if (fold != part).any() else fold == part
        odds[fold == part] = regression(features[rest], right[rest], names)(features[fold == part])
    level = isotonic(odds, right)
    return Calibration(
        regression(features, right, names), level, _threshold(level(odds), right), grounder, len(checked)
    )


def regression(features: Array, right: Array, names: Sequence[str], ridge: float = RIDGE) -> Logistic:
    """argmin_w,b −Σ log P(right) + ridge / 2 |w|², on standardised features; the bias is free.

    Features that do not vary are left out.
    """
    at = [NAMES.index(name) for name in names]
    mean, deviation = np.nanmean(features[:, at], 0), np.nanstd(features[:, at], 0)
    kept = deviation > 1e-6
    x = np.nan_to_num((features[:, at] - mean)[:, kept] / deviation[kept], nan=0.0)
    one = np.sqrt(ridge / FREE)  # the bias is one times its weight, so FREE / 2 times its square is its penalty
    w = logistic(np.concatenate([x, np.full((len(x), 1), one)], 1), right, ridge)
    chosen = [name for name, keep in zip(names, kept, strict=True) if keep]
    rows = zip(chosen, mean[kept].tolist(), deviation[kept].tolist(), w[:-1].tolist(), strict=True)
    found = {name: (m, d, weight) for name, m, d, weight in rows} or {names[0]: (0.0, 1.0, 0.0)}
    return Logistic(found, float(w[-1] * one))


def _threshold(confidence: Array, right: Array) -> float:
    """The least confidence, in hundredths, from which PRECISION of the boxes are right; the largest where none is."""
    steps = np.arange(0, 100) / 100
    enough = [t for t in steps if (kept := confidence >= t).any() and right[kept].mean() >= PRECISION]
    return float(min(enough, default=np.floor(confidence.max() * 100) / 100))


# ---------------------------------------------------------------- files


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
        return Calibration.from_json(json.loads(read_bytes(path, LARGEST)))
    except (OSError, ValueError, RecursionError, DataError) as error:
        raise DataError(f"{path} is damaged; fit it again with `groundling score labels`: {error}") from error
