"""What a recipe gives to the loop: its parts by name, and stages with their losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from groundling.tensors import Batch, ImageTextMatcher, TrainableCaptioner
from groundling.training.schedules import Constant, Schedule


class Parts(nn.Module):
    """Modules by name: `Parts(captioner=..., guide=...)`, then `parts.captioner`.

    The annotations are of the parts that a trained model may have. A recipe with others annotates a subclass.
    """

    captioner: TrainableCaptioner
    matcher: ImageTextMatcher

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


@dataclass(frozen=True)
class Clock:
    """When a loss is computed: `epoch` of the stage, `step` of the epoch, both from 0."""

    epoch: int
    step: int


Losses = Callable[[Any, Batch, Clock], Mapping[str, Tensor]]  # of Parts, annotated as the recipe has them


@dataclass(frozen=True)
class Stage:
    """A stretch of training with one objective: the sum of what `losses` returns, each term already weighted."""

    name: str
    losses: Losses
    lr: float
    epochs: int
    trains: tuple[str, ...]  # the parts that learn; all others are frozen, without dropout
    clip: float = 10.0  # largest norm of the gradient
    clip_each: float = 0.0  # largest size of each number of the gradient, in place of the norm; 0: the norm counts
    schedule: Schedule = Constant()  # factor of lr, from the epoch and the scores so far
    watch: str = "cider-d"  # the score, greater is better, that decides which weights are kept; "": the last ones are
    patience: int = 0  # stop after so many epochs without a better score; 0: never
    average: float = 0.0  # share that each step keeps of the moving average that is scored and kept; 0: the weights are


class Step(nn.Module):
    """The stage's losses as one forward(): training in several processes averages only what passes through it."""

    def __init__(self, parts: Parts, losses: Losses) -> None:
        super().__init__()
        self.parts = parts
        self.losses = losses

    def forward(self, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return dict(self.losses(self.parts, batch, clock))
