"""How long training will take, by a clock that is set by hand."""

from __future__ import annotations

from groundling.training.pace import TIMED, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def steps(pace: Pace, clock: Clock, n: int, seconds: float) -> list[str]:
    lines = []
    for _ in range(n):
        clock.now += seconds
        lines.append(pace.step())
    return lines


def test_a_few_steps_tell_how_long_all_of_them_take() -> None:
    """The first step (100 s) is not counted. 5 of 2 s each: of 186 steps 180 are left, 360 s."""
    clock = Clock()
    pace = Pace(186, 3, clock)
    lines = steps(pace, clock, 1, 100.0) + steps(pace, clock, TIMED + 20, 2.0)
    assert lines.index("about 6 minutes to the end (186 steps of 2 s, without validation)") == TIMED
    assert sum(map(bool, lines)) == 1


def test_the_first_epoch_adds_the_time_of_validation() -> None:
    """3 epochs of 20 steps of 3 s, validation 30 s: after the first 40 steps and 2 validations are left, 180 s."""
    clock = Clock()
    pace = Pace(60, 3, clock)
    steps(pace, clock, 20, 3.0)
    clock.now += 30
    assert pace.epoch() == "about 3 minutes to the end (a step takes 3 s, the validation after an epoch 30 s)"
    assert not any(steps(pace, clock, 20, 3.0)) and not pace.epoch()


def test_validation_is_no_step_where_epochs_are_short() -> None:
    """Epochs of 2 steps: 1 of them is timed; 18 steps of 3 s and 9 validations of 60 s are left: 594 s."""
    clock = Clock()
    pace = Pace(20, 10, clock)
    assert not any(steps(pace, clock, 2, 3.0))
    clock.now += 60
    assert pace.epoch().startswith("about 10 minutes to the end")


def test_hours_are_told_as_hours_and_short_runs_not_at_all() -> None:
    clock = Clock()
    assert "about 27.8 hours" in "".join(steps(Pace(10_006, 1, clock), clock, 6, 10.0))
    pace = Pace(30, 1, clock)
    assert not any(steps(pace, clock, 30, 1.0)) and not pace.epoch()


def test_one_minute_is_no_minutes() -> None:
    """36 steps of 2 s, one before and 5 timed: 30 are left, 60 s."""
    clock = Clock()
    pace = Pace(36, 1, clock)
    assert steps(pace, clock, TIMED + 1, 2.0)[-1].startswith("about 1 minute to the end")
