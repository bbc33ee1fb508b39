"""The moving average of the weights of a stage: what is scored and kept, while the weights themselves go on learning.

    w̄_n = d_n w̄_{n−1} + (1 − d_n) w_n,    d_n = min(d, (1 + n) / (10 + n)),    n = 0, 1, …: steps of the stage

The weights of a rate of learning that is never lowered circle around a good place; their mean lies inside of the circle
(Polyak and Juditsky, SIAM J. Control Optim. 1992). Early steps count less, since d_n is small there. Only weights that
learn are averaged: the running statistics of normalised features stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from groundling.errors import DataError


class Average:
    """Of the weights of `parts` that learn, if `decay` > 0; `tensors` of a checkpoint hold it as `average.NAME`."""

    def __init__(self, parts: nn.Module, decay: float, tensors: Mapping[str, Tensor]) -> None:
        self.decay = decay
        self.weights = {name: p for name, p in parts.named_parameters() if p.requires_grad} if decay else {}
        kept = {name: tensors.get(f"average.{name}", p.detach()) for name, p in self.weights.items()}
        for name, weight in self.weights.items():
            if kept[name].shape != weight.shape:
                raise DataError(f"the average of {name} is that of another recipe; begin anew with --restart")
        self.tensors = {name: value.to(self.weights[name].device, copy=True) for name, value in kept.items()}

    @torch.no_grad()
    def step(self, number: int) -> None:
        """After step `number` of the stage, from 0 on."""
        if self.weights:
            share = min(self.decay, (1 + number) / (10 + number))
            torch._foreach_lerp_(list(self.tensors.values()), list(self.weights.values()), 1 - share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The average stands in the place of the weights; afterwards, also after an error, the weights are back."""
        own = {name: weight.data for name, weight in self.weights.items()}
        try:
            for name, weight in self.weights.items():
                weight.data = self.tensors[name]
            yield
        finally:
            for name, weight in self.weights.items():
                weight.data = own[name]
