"""What is told of claims that were not confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from groundling.papers.claims import CLAIMS
from groundling.papers.summary import DIRECTION, NOT_SEEN, OPPOSITE
from groundling.papers.unconfirmed import FEW_SEEDS, OPEN, OTHER, OTHER_UNSURE, SMALLER, reason, unconfirmed


@pytest.mark.parametrize(
    ("paper", "likely", "verdict", "told"),
    [
        (0.2, (-0.1, 0.3), DIRECTION, OPEN),
        (0.2, (-0.1, 0.1), NOT_SEEN, SMALLER),
        (0.2, (-0.3, -0.1), NOT_SEEN, OTHER),
        (-0.2, (-0.3, 0.1), DIRECTION, OPEN),  # a claim that something falls
        (-0.2, (-0.1, 0.3), NOT_SEEN, SMALLER),
        (-0.2, (0.1, 0.3), NOT_SEEN, OTHER),
        (0.2, (-0.3, -0.1), OPPOSITE, OTHER),
        (0.2, (-0.3, 0.3), OPPOSITE, OTHER_UNSURE),  # images and seeds together are sure, the seeds alone are not
        (0.2, None, DIRECTION, FEW_SEEDS),
    ],
)
def test_reasons(paper: float, likely: tuple[float, float] | None, verdict: str, told: str) -> None:
    assert reason(paper, likely, verdict) == told


def test_changes_are_in_per_cent_of_the_other_row() -> None:
    """The paper: 21.54 / 11.7 − 1 = +84 %. Ours: 0.2 → 0.21, 0.22, 0.23: +10 %, ± 4.303 · 0.01 / √3 / 0.2 = 12.4 %."""
    claim = next(one for one in CLAIMS if one.table == "distributed-table-1" and one.score == "f1_loc")
    found: dict[str, Any] = {
        "data": "scenes",
        "rows": {
            "k4": {"f1_loc": {"values": {"0": 0.21, "1": 0.22, "2": 0.23}}},
            "k1": {"f1_loc": {"values": {"0": 0.2, "1": 0.2, "2": 0.2}}},
        },
        "claims": {claim.text: {"ours": [0.22, 0.2], "seeds": [0, 1, 2], "verdict": DIRECTION}},
    }
    lines = list(unconfirmed({"distributed-table-1": [found]}))
    assert f"| {claim.text} | f1_loc | scenes | +84 % | +10 % | -2 % to +22 % | {SMALLER} |" in lines
    found["claims"][claim.text]["verdict"] = "confirmed"
    assert not list(unconfirmed({"distributed-table-1": [found]}))
