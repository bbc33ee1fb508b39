"""What raters answered: shares of preference, and how well the raters agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.files import Location, parse_json, read_text
from groundling.metrics.statistics import Array, Statistics, signature

SAME = 2  # what a rating says: system 0 is better, system 1 is better, about the same
MAX_BYTES = 50_000_000

Word = tuple[str, int, int]  # image, tokens of both captions


@dataclass(frozen=True)
class Ratings:
    """The answers of one rater, with the key undone: word -> 0, 1 or SAME."""

    study: str
    systems: tuple[str, str]
    rater: str
    of: dict[Word, int]


def read(path: Path | str) -> Ratings:
    """A file that the page has saved; DataError names it and what is wrong in it."""
    path = Path(path)
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path}: too large for the answers of one rater; give the file that the page saved")
    row, place = parse_json(read_text(path), str(path)), Location(path)
    systems = place.at("systems").items(place.get(row, "systems", list), str)
    if len(systems) != 2:
        raise place.error(f"a study compares two systems, not {len(systems)}")
    found: dict[Word, int] = {}
    for i, answer in enumerate(place.get(row, "answers", list)):
        word, rating = _answer(answer, place.at("answers", i))
        if word in found:
            raise place.at("answers", i).error("this word was answered before")
        found[word] = rating
    return Ratings(place.get(row, "study", str), (systems[0], systems[1]), place.get(row, "rater", str), found)


def _answer(answer: Any, place: Location) -> tuple[Word, int]:
    tokens = place.at("tokens").items(place.get(answer, "tokens", list), int)
    left, choice = place.get(answer, "left", int), place.get(answer, "choice", str)
    if len(tokens) != 2 or left not in (0, 1) or choice not in ("left", "right", "same"):
        raise place.error('expected two tokens, left 0 or 1, and choice "left", "right" or "same"')
    rating = {"left": left, "right": 1 - left, "same": SAME}[choice]
    return (place.get(answer, "image", str), tokens[0], tokens[1]), rating


def evaluate(raters: Sequence[Ratings]) -> list[Statistics]:
    """Shares over all ratings, then agreement over the words that two raters have rated; sums over images.

    The share that prefers each system, and that finds them about the same; the difference of the first two; the shares
    of pairs of ratings that are the same, opposite (each for another system) and in between; Cohen's kappa,
    (p_o - p_e) / (1 - p_e), of the table of all pairs, the raters of each in the order of their names.
    """
    _one_study(raters)
    a, b = raters[0].systems
    images = tuple(dict.fromkeys(word[0] for one in raters for word in one.of))
    row = {image: i for i, image in enumerate(images)}
    counts, pairs = np.zeros((len(images), 3)), np.zeros((len(images), 3, 3))
    for one in raters:
        for word, rating in one.of.items():
            counts[row[word[0]], rating] += 1
    for one, other in combinations(sorted(raters, key=lambda r: r.rater), 2):
        for word in one.of.keys() & other.of.keys():
            pairs[row[word[0]], one.of[word], other.of[word]] += 1
    fields = {"study": raters[0].study, "raters": len(raters), "ratings": int(counts.sum())}
    twice = {"study": raters[0].study, "raters": len(raters), "pairs": int(pairs.sum())}

    def share(name: str, weights: Sequence[float]) -> Statistics:
        return Statistics(name, signature(name, **fields), images, counts, _weighted(np.array(weights, float)))

    def agreed(name: str, table: Sequence[Sequence[float]]) -> Statistics:
        flat = pairs.reshape(len(images), 9)
        return Statistics(name, signature(name, **twice), images, flat, _weighted(np.array(table, float).ravel()))

    return [
        share(f"{a} is better", (1, 0, 0)),
        share(f"{b} is better", (0, 1, 0)),
        share("about the same", (0, 0, 1)),
        share(f"{b} - {a}", (-1, 1, 0)),
        agreed("same rating", ((1, 0, 0), (0, 1, 0), (0, 0, 1))),
        agreed("opposite", ((0, 1, 0), (1, 0, 0), (0, 0, 0))),
        agreed("in between", ((0, 0, 1), (0, 0, 1), (1, 1, 0))),
        Statistics("kappa", signature("kappa", **twice), images, pairs.reshape(len(images), 9), kappa),
    ]


def kappa(sums: Array) -> Array:
    """Cohen's kappa of tables (..., 9), rows are the first rater; NaN where chance alone would always agree."""
    table = sums.reshape(*sums.shape[:-1], 3, 3)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = table / table.sum((-1, -2), keepdims=True)
        agree = np.trace(p, axis1=-2, axis2=-1)
        chance = (p.sum(-1) * p.sum(-2)).sum(-1)
        return np.asarray((agree - chance) / (1 - chance))


def _weighted(weights: Array) -> Any:
    """(..., s) counts -> the mean of `weights` over what was counted."""

    def mean(sums: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums @ weights / sums.sum(-1))

    return mean


def _one_study(raters: Sequence[Ratings]) -> None:
    if not any(one.of for one in raters):
        raise DataError("not a single answer in these files")
    if len({one.study for one in raters}) > 1:
        raise DataError(f"answers to different studies: {', '.join(sorted({one.study for one in raters}))}")
    names = [one.rater for one in raters]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"two files are by the rater {twice!r}; keep the later one, or give each person a name")
