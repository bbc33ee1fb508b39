"""Learning-rate schedules and early stopping: pure functions of the epoch and of the scores of the epochs before it.

So they have no state of their own, and a resumed run computes what an uninterrupted one would have. Recipes name one of
the classes in their settings: the comments of its fields are the help of `groundling train`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Schedule = Callable[[int, Sequence[float]], float]  # (epoch, scores so far) -> factor of the learning rate


@dataclass(frozen=True)
class Constant:
    """1"""

    def __call__(self, epoch: int, scores: Sequence[float]) -> float:
        return 1.0


@dataclass(frozen=True)
class StepDecay:
    """decay ^ ⌊epoch / decay_every⌋"""

    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs between two steps of the learning rate

    def __call__(self, epoch: int, scores: Sequence[float]) -> float:
        return self.decay ** (epoch // self.decay_every)


@dataclass(frozen=True)
class Plateau:
    """decay ^ drops, where the rate drops whenever `plateau` epochs in a row did not better the best score."""

    decay: float = 0.1  # factor of the learning rate when CIDEr-D has not become better for `plateau` epochs
    plateau: int = 3  # epochs without a better score after which the learning rate falls

    def __call__(self, epoch: int, scores: Sequence[float]) -> float:
        best, waited, drops = float("-inf"), 0, 0
        for score in scores:
            best, waited = (score, 0) if score > best else (best, waited + 1)
            if waited == self.plateau:
                drops, waited = drops + 1, 0
        return self.decay**drops


def stale(scores: Sequence[float]) -> int:
    """How many epochs ago the best score was first reached."""
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0
