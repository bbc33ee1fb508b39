"""Learning-rate schedules and early stopping: pure functions of the epoch and of the scores of the epochs before it.

So they have no state of their own, and a resumed run computes what an uninterrupted one would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Schedule = Callable[[int, Sequence[float]], float]  # (epoch, scores so far) -> factor of the learning rate


def constant(epoch: int, scores: Sequence[float]) -> float:
    return 1.0


@dataclass(frozen=True)
class StepDecay:
    """factor ^ ⌊epoch / every⌋"""

    factor: float = 0.8
    every: int = 3

    def __call__(self, epoch: int, scores: Sequence[float]) -> float:
        return self.factor ** (epoch // self.every)


@dataclass(frozen=True)
class Plateau:
    """factor ^ drops, where the rate drops whenever `patience` epochs in a row did not better the best score."""

    factor: float = 0.1
    patience: int = 3

    def __call__(self, epoch: int, scores: Sequence[float]) -> float:
        best, waited, drops = float("-inf"), 0, 0
        for score in scores:
            best, waited = (score, 0) if score > best else (best, waited + 1)
            if waited == self.patience:
                drops, waited = drops + 1, 0
        return self.factor**drops


def stale(scores: Sequence[float]) -> int:
    """How many epochs ago the best score was first reached."""
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0
