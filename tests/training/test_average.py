"""The moving average of weights: by hand, kept in place of the weights, and saved with a run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy import Loader, losses, new_parts

from groundling.errors import DataError
from groundling.tensors import Batch
from groundling.training.average import Average
from groundling.training.fit import Run, fit
from groundling.training.stages import Clock, Parts, Stage
from groundling.types import Score


def one_weight(value: float) -> tuple[nn.Module, nn.Parameter]:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, value)
    return module, module.weight


def set_to(weight: nn.Parameter, value: float) -> None:
    nn.init.constant_(weight, value)


def test_the_average_of_three_steps_by_hand() -> None:
    """d = 0.15: d_0 = min(0.15, 1/10) = 0.1, then 0.15 twice. From w̄ = 8 with w = 0, 4, 2:
    0.8, then 0.12 + 0.85 · 4 = 3.52, then 0.528 + 0.85 · 2 = 2.228."""
    module, weight = one_weight(8.0)
    average = Average(module, 0.15, {})
    for step, (value, expected) in enumerate([(0.0, 0.8), (4.0, 3.52), (2.0, 2.228)]):
        set_to(weight, value)
        average.step(step)
        torch.testing.assert_close(average.tensors["weight"], torch.tensor([[expected]]))
        assert weight.item() == value


def test_the_average_stands_in_the_place_of_the_weights_and_leaves_it_also_after_an_error() -> None:
    module, weight = one_weight(8.0)
    average = Average(module, 0.5, {})
    set_to(weight, 3.0)
    with pytest.raises(KeyboardInterrupt), average.in_place():
        assert weight.item() == 8.0
        raise KeyboardInterrupt
    assert weight.item() == 3.0
    assert average.tensors["weight"].item() == 8.0


def test_without_a_decay_there_is_no_average() -> None:
    module, weight = one_weight(8.0)
    average = Average(module, 0.0, {})
    set_to(weight, 3.0)
    average.step(0)
    with average.in_place():
        assert weight.item() == 3.0
    assert average.tensors == {}


def test_an_average_of_other_shapes_is_refused() -> None:
    with pytest.raises(DataError, match="average of weight .* --restart"):
        Average(one_weight(8.0)[0], 0.5, {"average.weight": torch.zeros(2, 1)})


class Killed(BaseException):
    pass


def averaged(folder: Path, stop_at: int = 0) -> tuple[Parts, list[dict[str, Tensor]]]:
    """Two epochs of four steps; the weights at the end, and what was kept after each epoch."""
    parts, kept, steps = new_parts(), [], itertools.count(1)
    seen: list[dict[str, Tensor]] = []

    def counted(m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        if next(steps) == stop_at:
            raise Killed
        return losses(m, batch, clock)

    def evaluate() -> list[Score]:
        seen.append({name: value.clone() for name, value in parts.state_dict().items()})
        return []

    def keep(scores: Sequence[Score]) -> None:
        kept.append({name: value.clone() for name, value in parts.state_dict().items()})

    stage = Stage("xe", counted, lr=1e-1, epochs=2, trains=("captioner",), average=0.9)
    run = Run(folder, {}, torch.device("cpu"), save_seconds=0.0)
    fit([stage], parts, Loader(4), run, evaluate=evaluate, keep=keep, recall=lambda: None)
    assert all(torch.equal(value, seen[-1][name]) for name, value in kept[-1].items())  # what is kept was scored
    return parts, kept


def test_the_average_is_what_is_kept_and_the_weights_go_on(tmp_path: Path) -> None:
    parts, kept = averaged(tmp_path)
    name = "captioner.see.weight"
    assert not torch.allclose(kept[-1][name], parts.state_dict()[name], atol=1e-3)
    assert torch.equal(kept[-1]["guide.weight"], parts.state_dict()["guide.weight"])


@pytest.mark.parametrize("step", [2, 5, 7])
def test_a_run_that_was_killed_keeps_the_same_average(step: int, tmp_path: Path) -> None:
    """Step 5 is the first of the second epoch."""
    whole, kept = averaged(tmp_path / "whole")
    with pytest.raises(Killed):
        averaged(tmp_path / "cut", stop_at=step)
    resumed, again = averaged(tmp_path / "cut")
    for name, value in kept[-1].items():
        assert torch.equal(value, again[-1][name])
        assert torch.equal(whole.state_dict()[name], resumed.state_dict()[name])
