"""How long a run will take: told after a few steps, and after the first epoch with the time of its validation too."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMED = 5  # steps that the first estimate is made of
SHORT = 60.0  # seconds; a run that takes less needs no estimate


class Pace:
    """Of a run that has `steps` to do in `epochs`. The first step is not counted: it is slower than the others."""

    def __init__(self, steps: int, epochs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps, self.epochs, self.clock = steps, epochs, clock
        self.done = self.timed = 0
        self.spent = 0.0  # seconds of the steps that were timed
        self.last = 0.0  # when the step before this one was done
        self.reported = self.validated = False

    def step(self) -> str:
        """A step is done; what to say, if anything."""
        now = self.clock()
        if self.last:
            self.spent, self.timed = self.spent + now - self.last, self.timed + 1
        self.last, self.done = now, self.done + 1
        if self.reported or self.timed < TIMED:
            return ""
        self.reported = True
        each = self.spent / self.timed
        return _sentence(each * (self.steps - self.done), f"{self.steps} steps of {each:.2g} s, without validation")

    def epoch(self) -> str:
        """An epoch is over, and validation too."""
        since, self.last, first, self.validated = self.clock() - self.last, 0.0, not self.validated, True
        self.epochs -= 1
        if not first or not self.timed:
            return ""
        self.reported = True
        each = self.spent / self.timed
        rest = each * (self.steps - self.done) + since * self.epochs
        validation = f", the validation after an epoch {since:.2g} s" if since > each / 10 else ""
        return _sentence(rest, f"a step takes {each:.2g} s{validation}")


def _sentence(seconds: float, why: str) -> str:
    """A line about the seconds that are left; none where they are few."""
    if seconds < SHORT:
        return ""
    minutes = round(seconds / 60)
    duration = f"{seconds / 3600:.1f} hours" if minutes >= 120 else f"{minutes} minute{'s' * (minutes > 1)}"
    return f"about {duration} to the end ({why})"
