"""Mean and deviation of scores over runs: what is left when chance is averaged out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from groundling.types import Score


@dataclass(frozen=True)
class Spread:
    """One score of several runs."""

    name: str
    values: tuple[float, ...]  # in the order of the runs
    signature: str

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        """√(Σ (x − mean)² / (n − 1)); NaN for a single run, of which nobody knows how it varies."""
        if len(self.values) < 2:
            return math.nan
        return math.sqrt(math.fsum((x - self.mean) ** 2 for x in self.values) / (len(self.values) - 1))

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if math.isnan(self.deviation) else f"{self.mean:.4f} ± {self.deviation:.4f}"


def spread(runs: Sequence[Sequence[Score]]) -> list[Spread]:
    """The scores of one or more runs, each over all of them. ValueError where one lacks a score or means another."""
    spreads = []
    for scores in zip(*runs, strict=True):
        if len({score.signature for score in scores}) > 1:
            raise ValueError(f"these are different scores: {' and '.join(sorted({s.signature for s in scores}))}")
        spreads.append(Spread(scores[0].name, tuple(score.value for score in scores), scores[0].signature))
    return spreads
