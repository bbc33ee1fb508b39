"""Claims that were not confirmed, and what was measured instead: is as large a change as the paper's excluded?

Scores of drawn scenes and of photos have other scales than the papers', so changes are compared in per cent of the row
that a claim compares with. Their interval is that of Student's t on the differences of the seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groundling.papers.claims import CLAIMS, Claim
from groundling.papers.summary import CONFIRMED, OPPOSITE, Summaries, differences_of, t_interval

HEADS = """\
| claim | score | data | paper | ours | 95 % by seeds | what that says |
|---|---|---|---|---|---|---|"""
OPEN = "a change like the paper's is not excluded: the seeds differ too much"
SMALLER = "if there is such a change, it is smaller than the paper's"
OTHER = "the change is the other way"
OTHER_UNSURE = "the change is the other way (p < 0.05 by images and seeds; by the seeds alone not certain)"
FEW_SEEDS = "too few seeds for an interval"


def unconfirmed(found: Summaries) -> Iterator[str]:
    """Lines of Markdown; `found`: summaries by table."""
    results = [
        (claim, one, result)
        for claim in CLAIMS
        for one in found.get(claim.table, ())
        if (result := one["claims"].get(claim.text)) and result["verdict"] != CONFIRMED
    ]
    if not results:
        return
    yield "### Not confirmed, and what was measured\n"
    yield "Changes are in per cent of the row that a claim compares with.\n"
    yield HEADS
    yield from (_row(claim, one, result) for claim, one, result in results)
    yield ""


def _row(claim: Claim, found: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    ours, theirs = result["ours"]
    of_paper = claim.printed[0] / claim.printed[1] - 1
    interval = t_interval(differences_of(found, claim)) if theirs else None
    likely = tuple(x / theirs for x in interval) if interval else None
    told = f"{_percent(likely[0])} to {_percent(likely[1])}" if likely else ""
    change = _percent((ours - theirs) / theirs) if theirs else ""
    cells = (claim.text, claim.score, found["data"], _percent(of_paper), change, told)
    return "| " + " | ".join([*cells, reason(of_paper, likely, result["verdict"])]) + " |"


def reason(of_paper: float, likely: tuple[float, ...] | None, verdict: str) -> str:
    """What an interval of our change says of a change as large as the paper's."""
    if likely is None:
        return OTHER if verdict == OPPOSITE else FEW_SEEDS
    end = likely[1] if of_paper > 0 else -likely[0]  # how far it may go the paper's way
    if verdict == OPPOSITE:
        return OTHER_UNSURE if end > 0 else OTHER
    return OPEN if end >= abs(of_paper) else SMALLER if end > 0 else OTHER


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %"
