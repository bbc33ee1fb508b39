"""A run that is killed and resumed ends as one that is not."""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import train, train_until_killed

from groundling.errors import GroundlingError
from groundling.training import fit as fit_module
from groundling.training.interrupt import Interrupt, Stopped
from groundling.training.log import Log


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


class Killed(BaseException):
    """As sudden as a kill: nothing of ours catches it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The `step`-th seeding from now on ends the process, so to speak."""
    count = 0
    original = fit_module.seed_everything

    def seed(*place: int) -> None:
        nonlocal count
        count += 1
        if count == step:
            raise Killed
        original(*place)

    monkeypatch.setattr(fit_module, "seed_everything", seed)


@pytest.mark.parametrize("step", [1, 5, 11, 21, 25, 40])
def test_killed_at_any_step_and_resumed_gives_the_same_bits_and_the_same_log(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps 11, 21 and 31 are the first of an epoch; 21 is the first of the second stage."""
    whole = train(tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, step)
        train(tmp_path / "cut", save_seconds=0.0)
    resumed = train(tmp_path / "cut")
    assert same(whole, resumed)
    assert (tmp_path / "whole/log.csv").read_bytes() == (tmp_path / "cut/log.csv").read_bytes()


def test_steps_after_the_last_checkpoint_are_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, 17)
        train(tmp_path / "cut")  # saved only at the end of each epoch
    with open(tmp_path / "cut/log.csv", "ab") as file:
        file.write(b"one,1,3,xe,rows that reached the disk before the kill\n")
    assert same(whole, train(tmp_path / "cut"))
    assert (tmp_path / "whole/log.csv").read_bytes() == (tmp_path / "cut/log.csv").read_bytes()


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    first = train(tmp_path)
    log = (tmp_path / "log.csv").read_bytes()
    assert same(first, train(tmp_path))
    assert (tmp_path / "log.csv").read_bytes() == log


def test_another_seed_or_place_gives_other_dropout(tmp_path: Path) -> None:
    """Else the tests above would pass with random numbers that do not depend on anything."""
    draws = set()
    for place in [(3, 0, 0, 0, 0), (4, 0, 0, 0, 0), (3, 1, 0, 0, 0), (3, 0, 1, 0, 0), (3, 0, 0, 1, 0), (3, 0, 0, 0, 1)]:
        fit_module.seed_everything(*place)
        draws.add(float(torch.rand(())))
    assert len(draws) == 6


def test_kill_minus_nine_three_times(tmp_path: Path) -> None:
    """Real processes, killed at some moment of some step or of its saving."""
    whole = train(tmp_path / "whole", epochs=8)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["toy"])
    for seconds in (0.0, 0.05, 0.02):
        process = context.Process(target=train_until_killed, args=(tmp_path / "cut", seconds))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert same(whole, train(tmp_path / "cut", epochs=8))
    assert (tmp_path / "whole/log.csv").read_bytes() == (tmp_path / "cut/log.csv").read_bytes()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_tells_how_to_go_on(
    signum: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(tmp_path / "whole")
    count = 0
    original = fit_module.seed_everything

    def seed(*place: int) -> None:
        nonlocal count
        count += 1
        if count == 14:
            signal.raise_signal(signum)
        original(*place)

    with monkeypatch.context() as patch, pytest.raises(Stopped, match="the same command goes on") as stopped:
        patch.setattr(fit_module, "seed_everything", seed)
        train(tmp_path / "cut")
    assert stopped.value.signum == signum
    assert (tmp_path / "cut/log.csv").read_text().splitlines()[-1].startswith("one,1,3,")  # the 14th step was finished
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same(whole, train(tmp_path / "cut"))


def test_ctrl_c_during_evaluation_does_not_wait_for_its_end(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole")
    reached: list[str] = []

    def interrupt(parts: torch.nn.Module) -> None:
        signal.raise_signal(signal.SIGINT)
        reached.append("the end")

    with pytest.raises(Stopped):
        train(tmp_path / "cut", change=interrupt)
    assert not reached
    assert same(whole, train(tmp_path / "cut"))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("method", ["step", "epoch"])
def test_a_signal_just_before_or_after_evaluation_is_not_lost(
    method: str, signum: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last step of the first epoch looked for signals, or when its scores are logged."""
    whole = train(tmp_path / "whole")
    original, count, evaluated = getattr(Log, method), 0, []

    def interrupted(self: Log, *told: Any) -> None:
        nonlocal count
        count += 1
        original(self, *told)
        if count == {"step": 10, "epoch": 1}[method]:
            signal.raise_signal(signum)

    with monkeypatch.context() as patch, pytest.raises(Stopped) as stopped:
        patch.setattr(Log, method, interrupted)
        train(tmp_path / "cut", change=evaluated.append)
    assert stopped.value.signum == signum
    assert len(evaluated) == {"step": 0, "epoch": 1}[method]
    assert same(whole, train(tmp_path / "cut"))
    assert (tmp_path / "whole/log.csv").read_bytes() == (tmp_path / "cut/log.csv").read_bytes()


def test_an_evaluation_that_fails_leaves_signals_as_they_were_within_the_loop() -> None:
    with Interrupt() as interrupt:
        with pytest.raises(ValueError, match="odd"), interrupt.at_once():
            raise ValueError("odd")
        signal.raise_signal(signal.SIGTERM)  # raises nothing
        assert interrupt.signum == signal.SIGTERM


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    train(tmp_path, hidden=512)
    with pytest.raises(GroundlingError, match="hidden was 512, now 256.*--restart"):
        train(tmp_path, hidden=256)
