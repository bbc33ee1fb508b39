from __future__ import annotations

from groundling.training.schedules import Constant, Plateau, StepDecay, stale


def test_step_decay_multiplies_every_three_epochs() -> None:
    decay = StepDecay(0.5, 3)
    assert [decay(epoch, ()) for epoch in range(7)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]


def test_plateau_drops_after_two_epochs_that_are_not_better_and_again_after_two_more() -> None:
    drop = Plateau(0.5, 2)
    scores = [1.0, 2.0, 2.0, 1.9, 1.8, 2.0, 3.0, 2.0]
    rates = [drop(epoch, scores[:epoch]) for epoch in range(9)]
    #       after   -    1    2    2    1.9  1.8   2.0   3.0   2.0
    assert rates == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_constant_is_one() -> None:
    assert Constant()(5, [1.0]) == 1.0


def test_stale_counts_the_epochs_since_the_first_best() -> None:
    assert [stale(scores) for scores in ([], [1.0], [1.0, 2.0], [2.0, 1.0], [2.0, 2.0, 1.0])] == [0, 0, 0, 1, 2]
