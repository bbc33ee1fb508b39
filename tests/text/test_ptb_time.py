"""A text without spaces takes time by its length, and the tokens are those of the plain search."""

from __future__ import annotations

import random
import time

import pytest

from groundling.text import ptb

UNITS = ("&", "a.1.", "a,", "<!a", "a. <!x ", "www.&", "a$", "&lt;a", "a-,", "é&", "a@.")


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_run_takes_linear_time(unit: str) -> None:
    """Twice as long, about twice the time, not four times; 100,000 & took half a minute."""
    times = []
    for n in (8_000, 32_000):
        text = unit * (n // len(unit)) + " .com"
        start = time.process_time()
        ptb.lex(text)
        times.append(time.process_time() - start)
    assert times[1] < 8 * times[0] + 0.2


def test_what_is_known_to_fail_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    tricky = [*UNITS, *"ab1.,&<!> -@/c'é_:;\"$=({", ".com", "http://", ".py", "n't", "\xad", "The ", "\u3000", "x"]
    draw = random.Random(0)
    texts = ["".join(draw.choices(tricky, k=draw.randint(2, 20))) for _ in range(1500)]
    found = [ptb.lex(text) for text in texts]
    plain = {first: tuple(rule._replace(run=None) for rule in rules) for first, rules in ptb._RULES_AT.items()}
    monkeypatch.setattr(ptb, "_RULES_AT", plain)
    assert found == [ptb.lex(text) for text in texts]
