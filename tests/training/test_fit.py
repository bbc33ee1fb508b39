from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy import Loader, losses, make_batch, new_parts

from groundling.errors import GroundlingError
from groundling.tensors import Batch
from groundling.training import checkpoint
from groundling.training.fit import Run, clip_gradient, fit
from groundling.training.stages import Clock, Parts, Stage
from groundling.types import Score


def go(folder: Path, stage: Stage, parts: Parts, scores: list[float] | None = None, *more: Stage) -> list[float]:
    """Runs stages whose evaluation gives `scores` one after the other; returns those that were kept."""
    kept: list[float] = []
    rest = iter(scores or [])

    def evaluate() -> list[Score]:
        return [Score("cider-d", next(rest), 1, "")] if scores else []

    best: dict[str, Tensor] = {}

    def keep(s: Sequence[Score]) -> None:
        kept.append(s[0].value if s else math.nan)
        best.update({name: value.clone() for name, value in parts.state_dict().items()})

    def recall() -> None:
        parts.load_state_dict(best)

    run = Run(folder, {}, torch.device("cpu"))
    fit(
        [stage, *more],
        parts,
        Loader(2),
        run,
        evaluate=evaluate,
        keep=keep,
        recall=recall,
    )
    return kept


def test_only_what_a_stage_trains_changes_and_only_it_has_dropout(tmp_path: Path) -> None:
    parts = new_parts()
    before = {name: value.clone() for name, value in parts.state_dict().items()}
    modes: list[tuple[bool, bool]] = []

    def seen(m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        modes.append((m.captioner.training, m.guide.training))
        return losses(m, batch, clock)

    go(tmp_path, Stage("xe", seen, lr=1e-2, epochs=2, trains=("captioner",)), parts, [1.0, 2.0])
    changed = {name for name, value in parts.state_dict().items() if not torch.equal(value, before[name])}
    assert "captioner.see.weight" in changed
    assert not any(name.startswith("guide") for name in changed)
    assert modes == [(True, False)] * 4


def test_the_gradient_is_clipped_to_its_norm(tmp_path: Path) -> None:
    """With a large loss and the first step of Adam undone by lr = 0, the gradient that is left has norm `clip`."""
    parts = new_parts()
    stage = Stage(
        "xe", lambda m, b, c: {"xe": 1e4 * losses(m, b, c)["xe"]}, lr=0.0, epochs=1, trains=("captioner",), clip=0.5
    )
    go(tmp_path, stage, parts)
    norm = torch.stack([p.grad.norm() for p in parts.parameters() if p.grad is not None]).norm()
    torch.testing.assert_close(norm, torch.tensor(0.5), rtol=1e-4, atol=0)


def test_the_best_weights_are_kept_and_training_stops_when_patience_ends(tmp_path: Path) -> None:
    stage = Stage("xe", losses, lr=1e-3, epochs=9, trains=("captioner",), patience=2)
    assert go(tmp_path, stage, new_parts(), [1.0, 3.0, 2.0, 3.0, 9.0]) == [1.0, 3.0]
    state, _ = checkpoint.load_run(tmp_path, {})
    assert state.scores == (1.0, 3.0, 2.0, 3.0)
    assert state.best[0].value == 3.0


def test_the_best_of_a_later_stage_replaces_what_an_earlier_one_kept(tmp_path: Path) -> None:
    one, two = (Stage(name, losses, lr=1e-3, epochs=2, trains=("captioner",)) for name in ("one", "two"))
    assert go(tmp_path / "a", one, new_parts(), [1.0, 3.0, 2.0, 1.0], two) == [1.0, 3.0, 2.0]
    assert checkpoint.load_run(tmp_path / "a", {})[0].best[0].value == 2.0


def test_a_stage_starts_from_the_weights_that_were_kept(tmp_path: Path) -> None:
    """A second stage with lr = 0 ends with the weights of the first epoch, which was better than the second."""
    one = Stage("one", losses, lr=1e-2, epochs=2, trains=("captioner",))
    two = Stage("two", losses, lr=0.0, epochs=1, trains=("captioner",))
    first, both = new_parts(), new_parts()
    go(tmp_path / "first", replace(one, epochs=1), first, [3.0])
    go(tmp_path / "both", one, both, [3.0, 1.0, 2.0], two)
    assert all(torch.equal(value, first.state_dict()[name]) for name, value in both.state_dict().items())


def test_a_score_that_is_no_number_replaces_nothing(tmp_path: Path) -> None:
    stage = Stage("xe", losses, lr=1e-3, epochs=3, trains=("captioner",))
    assert go(tmp_path, stage, new_parts(), [1.0, math.nan, 2.0]) == [1.0, 2.0]


def test_without_a_score_every_epoch_is_kept(tmp_path: Path) -> None:
    assert len(go(tmp_path, Stage("xe", losses, lr=1e-3, epochs=3, trains=("captioner",)), new_parts())) == 3


def test_a_score_that_is_watched_but_not_given_is_named(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match="no score 'f1_all' to watch; evaluation gives cider-d"):
        go(tmp_path, Stage("xe", losses, lr=1e-3, epochs=1, trains=("captioner",), watch="f1_all"), new_parts(), [1.0])


class Poison(nn.Module):
    """Fine forwards; its gradient is not a number."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.detach()).clamp(min=0).sqrt().sum()


@pytest.mark.parametrize("term", [lambda x: x.sum() * math.nan, lambda x: x.sum() / 0, lambda x: Poison()(x)])
def test_a_loss_or_gradient_that_is_no_number_stops_before_the_weights_change(term: object, tmp_path: Path) -> None:
    parts = new_parts()
    before: dict[str, Tensor] = {}

    def fail(m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        terms = losses(m, batch, clock)
        if clock == Clock(0, 1):
            before.update({name: value.clone() for name, value in m.state_dict().items()})
            terms["odd"] = term(m.captioner.see.weight)  # type: ignore[operator]
        return terms

    names = ", ".join(make_batch(1).ids)
    with pytest.raises(GroundlingError, match=f"not finite at epoch 1, step 2 .*{names}"):
        go(tmp_path, Stage("xe", fail, lr=1e-2, epochs=1, trains=("captioner",)), parts)
    assert before
    assert all(torch.equal(value, before[name]) for name, value in parts.state_dict().items())


def test_every_term_is_logged_by_name(tmp_path: Path) -> None:
    go(tmp_path, Stage("xe", losses, lr=1e-3, epochs=1, trains=("captioner",)), new_parts(), [1.5])
    rows = [row.split(",") for row in (tmp_path / "log.csv").read_text().splitlines()]
    assert [row[3] for row in rows[1:5]] == ["lr", "xe", "small", "norm"]
    assert rows[-1] == ["xe", "0", "2", "cider-d", "1.5"]
    assert list((tmp_path / "tensorboard").iterdir())


@pytest.mark.parametrize(
    ("limits", "left"),
    [({"clip": 2.5}, [1.5, -2.0]), ({"clip": 2.5, "clip_each": 0.1}, [0.1, -0.1]), ({"clip": 9.0}, [3.0, -4.0])],
    ids=["norm", "each number", "small enough"],
)
def test_gradients_are_clipped_by_their_norm_or_number_by_number(limits: dict[str, float], left: list[float]) -> None:
    """(3, −4) has norm 5: half of it has 2.5."""
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, -4.0])
    stage = replace(Stage("xe", losses, lr=0.1, epochs=1, trains=("captioner",)), **limits)
    assert clip_gradient([weight], stage) == pytest.approx(5.0)
    assert weight.grad.tolist() == pytest.approx(left, abs=1e-5)
