"""The summary of a table's runs: values of every seed, tests against the baseline and of the paper's claims.

A row is compared with another on the same images and with the same seeds:

    d = mean over seeds of (a − b)          p = share of samples in which |d* − d| >= |d|

d* is d of a sample that draws both: images, with the weights of the Bayesian bootstrap (`metrics.significance`), and
seeds, with replacement. What the seeds drawn differ by counts √(n / (n − 1)) times: n runs deviate from their own mean
by so much less than from that of all runs. So p knows of the chance in the images and of that in the training, of the
latter as much as so few seeds can tell; with one seed it knows of the images alone.

Beside it stands the p of a paired t-test, Student's, on the differences of the seeds alone, where there are three or
more: it takes the images as they are, and asks whether other trainings would agree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.files import saved
from groundling.papers.claims import CLAIMS, Claim
from groundling.papers.reproduce import Bench, Scored, scored
from groundling.papers.tables import Table

ALPHA = 0.05
FEW = 3  # seeds that a t-test is made of at the least
SAME = 1e-6  # scores of one run, of two machines
CONFIRMED, DIRECTION, NOT_SEEN, OPPOSITE = "confirmed", "same direction, not significant", "not seen", "the opposite"

Runs = Mapping[int, Scored]  # by seed
Summaries = Mapping[str, Sequence[Mapping[str, Any]]]  # by table, one of each data set


@dataclass(frozen=True)
class Difference:
    """Of two rows in one score: mean over the seeds that both have."""

    value: float
    p: float  # NaN where there are no samples of the score
    seeds: tuple[int, ...]
    samples: int = 0  # that p was computed from

    def verdict(self, lower: bool = False) -> str:
        """On the claim that the difference is above 0, or with `lower` below."""
        sure, right = self.p < ALPHA, self.value < 0 if lower else self.value > 0
        if right:
            return CONFIRMED if sure else DIRECTION
        return OPPOSITE if sure else NOT_SEEN


def difference(ours: Runs, theirs: Runs, name: str, their_name: str = "") -> Difference | None:
    """Of score `name`, ours less theirs; None where they have no seed in common in which both have it."""
    other = their_name or name
    both = [s for s in ours if s in theirs and name in ours[s].values and other in theirs[s].values]
    if not both:
        return None
    by_seed = np.array([ours[s].values[name] - theirs[s].values[other] for s in both])
    value = float(by_seed.mean())
    if any(name not in ours[s].resampled or other not in theirs[s].resampled for s in both):
        return Difference(value, math.nan, tuple(both))
    pairs = [(ours[s].resampled[name], theirs[s].resampled[other]) for s in both]
    n = min(len(one) for pair in pairs for one in pair)  # the first samples are the same however many were drawn
    each = np.stack([a[:n] - b[:n] for a, b in pairs])  # (seeds, samples)
    drawn = np.random.default_rng(0).integers(len(both), size=each.shape)
    of_seeds = by_seed[drawn].mean(0) - value
    wider = math.sqrt(len(both) / (len(both) - 1)) if len(both) > 1 else 1.0
    samples = np.take_along_axis(each, drawn, 0).mean(0) + (wider - 1) * of_seeds
    as_far = ~(np.abs(samples - value) < abs(value) - 1e-12)
    return Difference(value, float((as_far.sum() + 1) / (n + 1)), tuple(both), n)


def t_test(differences: Sequence[float]) -> float | None:
    """p, two-sided, of Student's t-test that the mean of these is 0; None of fewer than three, and of equal ones."""
    n = len(differences)
    deviation = float(np.std(differences, ddof=1)) if n >= FEW else 0.0
    if not deviation > 1e-12:
        return None
    return _student(float(np.mean(differences)) / deviation * math.sqrt(n), n - 1)


def _student(t: float, freedom: int) -> float:
    """P(|T| >= |t|) by the finite sums in cos θ, θ = atan(|t| / √ν) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle, odd = math.atan(abs(t) / math.sqrt(freedom)), freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * k / (k + 1)
    inside = math.sin(angle) * total
    return 1 - (2 / math.pi * (angle + inside) if odd else inside)


def t_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Where their mean lies with a probability of 1 − ALPHA, by Student's t; None of fewer than three."""
    n = len(differences)
    if n < FEW:
        return None
    mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1)) / math.sqrt(n)
    low, high = 0.0, 1e6
    for _ in range(100):  # P(|T| >= t) falls with t
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, n - 1) > ALPHA else (low, middle)
    return mean - high * error, mean + high * error


def of_seeds(found: Mapping[str, Any], claim: Claim) -> float | None:
    """p of the t-test on the seeds of a claim, from the values that a summary stores."""
    return t_test(differences_of(found, claim))


def differences_of(found: Mapping[str, Any], claim: Claim) -> list[float]:
    """Of the two rows of a claim, one of each seed, from the values that a summary stores; none where one lacks."""
    ours, theirs = (
        (found["rows"].get(job, {}).get(score) or {"values": {}})["values"]
        for job, score in ((claim.job, claim.score), (claim.than, claim.than_score or claim.score))
    )
    named = [str(seed) for seed in (found["claims"].get(claim.text) or {"seeds": ()})["seeds"]]
    pairs = [(ours.get(seed), theirs.get(seed)) for seed in named]
    return [] if any(None in pair for pair in pairs) else [a - b for a, b in pairs]


def runs(bench: Bench, job: str) -> dict[int, Scored]:
    """All runs of a job that were scored on the split of the bench, by their seeds."""
    pattern = re.compile(rf"{re.escape(job)}-(\d+)")
    named = [(path, pattern.fullmatch(path.name)) for path in sorted(bench.out.glob(f"{job}-*"))]
    found = {int(match[1]): scored(path, bench.split) for path, match in named if match}
    return {seed: one for seed, one in sorted(found.items()) if one is not None}


def summary(table: Table, bench: Bench, command: str, images: Mapping[str, Any]) -> dict[str, Any]:
    """Plain JSON: the table as far as it was run; `images` are described by `Material.described`."""
    done = {row.job: runs(bench, row.job) for row in table.rows}
    baseline = table.baseline or table.rows[0].job
    return {
        "table": table.name,
        "command": command,
        "data": bench.data.resolve().name,
        "split": bench.split,
        "images": dict(images),
        "baseline": next(row.label for row in table.rows if row.job == baseline),
        "rows": {
            row.job: {name: _cell(done[row.job], done[baseline], name) for name in table.columns.values()}
            for row in table.rows
            if done[row.job]
        },
        "claims": {claim.text: _tested(claim, bench) for claim in CLAIMS if claim.table == table.name},
    }


def _cell(ours: Runs, theirs: Runs, name: str) -> dict[str, Any] | None:
    """Values by seed, signature and p against the baseline; None where the row has no such score."""
    values = {seed: run.values[name] for seed, run in ours.items() if name in run.values}
    if not values:
        return None
    signature = next(score.signature for run in ours.values() for score in run.scores if score.name == name)
    compared = None if ours is theirs else difference(ours, theirs, name)
    tested: dict[str, Any] = {"p": None}
    if compared is not None and not math.isnan(compared.p):
        tested = {"p": compared.p, "samples": compared.samples}
    return {"values": {seed: _finite(value) for seed, value in values.items()}, **tested, "signature": signature}


def _tested(claim: Claim, bench: Bench) -> dict[str, Any] | None:
    """What the runs say of a claim; None where they say nothing."""
    ours, theirs = runs(bench, claim.job), runs(bench, claim.than)
    found = difference(ours, theirs, claim.score, claim.than_score)
    if found is None or math.isnan(found.value):
        return None
    mean = [
        float(np.mean([each[seed].values[name] for seed in found.seeds]))
        for each, name in ((ours, claim.score), (theirs, claim.than_score or claim.score))
    ]
    tested = {"p": _finite(found.p), "samples": found.samples, "seeds": found.seeds}
    return {"ours": mean, **tested, "verdict": found.verdict(claim.lower)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ---------------------------------------------------------------- files


def write(folder: Path, found: Mapping[str, Any]) -> Path:
    path = folder / f"{found['table']}-{found['data']}-{found['split']}.json"
    with saved(path) as file:
        file.write((json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Two summaries of a table in one: of each row and claim the one with more seeds, else that of `after`.

    Their runs may be of two machines. Where `after` lacks what `before` has, runs that both have must agree: a row is
    tested against the baseline of its own summary. A row of `after` that was not tested, because its baseline was not
    run, does not replace one that was. DataError where runs do not agree, are of other images, or a test would be lost.
    """
    if covers(after, before):
        return dict(after)
    same = ("table", "data", "split", "images")
    if odd := next((name for name in same if before[name] != after[name]), None):
        raise DataError(f"summaries of {after['table']}: {odd} was {before[odd]!r} and is {after[odd]!r}; keep one")
    if (old := _settings(before["command"])) != (now := _settings(after["command"])):
        raise DataError(f"summaries of {after['table']} are of other settings: {old!r} and {now!r}; keep one")
    _agree(before, after)
    rows, claims = ({**before[name], **_present(after[name])} for name in ("rows", "claims"))
    for kind, found, seeds in (("rows", rows, seeds_of), ("claims", claims, _claim_seeds)):
        found |= {name: one for name, one in before[kind].items() if len(seeds(one)) > len(seeds(found[name]))}
    rows |= {name: before["rows"][name] for name in _untested(before, after)}
    most = max(
        (before, after), key=lambda one: (max(map(len, map(seeds_of, one["rows"].values())), default=0), one is after)
    )
    return {**after, "command": most["command"], "rows": rows, "claims": claims}


def _untested(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Rows that both have and `before` alone has tests of. DataError where `after` has seeds of them besides."""
    both = before["rows"].keys() & after["rows"].keys()
    lost = sorted(name for name in both if _tests(before["rows"][name]) - _tests(after["rows"][name]))
    if odd := next((x for x in lost if seeds_of(after["rows"][x]) - seeds_of(before["rows"][x])), None):
        raise DataError(
            f"summaries of {after['table']}: {odd} has more seeds than before, but no test against "
            f"{after['baseline']!r}; run that row with the same seeds too"
        )
    return lost


def _tests(row: Mapping[str, Any]) -> set[str]:
    """The scores of a row that have a p."""
    return {name for name, cell in _present(row).items() if cell["p"] is not None}


def covers(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether it has every run of the other summary."""
    rows = after["rows"]
    return all(name in rows and seeds_of(rows[name]) >= seeds_of(row) for name, row in before["rows"].items())


def _settings(command: str) -> str:
    """A command without its places and seeds."""
    return re.sub(r" --(data|regions|out|seeds) \S+", "", command)


def _present(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in found.items() if one is not None}


def seeds_of(row: Mapping[str, Any]) -> set[str]:
    """The seeds of a row of a summary."""
    return {str(seed) for cell in row.values() if cell for seed in cell["values"]}


def _claim_seeds(tested: Mapping[str, Any] | None) -> Sequence[int]:
    return tested["seeds"] if tested else ()


def _signatures(found: Mapping[str, Any]) -> dict[str, str]:
    """By score."""
    return {name: cell["signature"] for row in found["rows"].values() for name, cell in _present(row).items()}


def _agree(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """DataError where a score has two signatures, or a run that both summaries have has two values of it."""
    was, told = _signatures(before), _signatures(after)
    if odd := next((name for name in was if told.get(name, was[name]) != was[name]), None):
        raise DataError(
            f"summaries of {after['table']}: {odd} was {was[odd]!r} and is {told[odd]!r}; run all rows and seeds anew"
        )
    for job in before["rows"].keys() & after["rows"].keys():
        for name, cell in _present(before["rows"][job]).items():
            new = {str(seed): value for seed, value in ((after["rows"][job].get(name) or cell)["values"]).items()}
            for seed, old in cell["values"].items():
                now = new.get(str(seed), old)
                if now != old and (now is None or old is None or not math.isclose(now, old, abs_tol=SAME)):
                    raise DataError(
                        f"summaries of {after['table']}: {name} of {job}, seed {seed}, was {old} and is {now}; "
                        "run all rows and seeds on one machine"
                    )


def read(folder: Path) -> Summaries:
    """The summaries in a folder, by table. DataError where one is not what `write` writes, or two are of the same."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            one = json.loads(path.read_bytes())
            name, data, _, _, _ = one["table"], one["data"], one["rows"], one["claims"], one["images"]["scored"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is not a summary of `groundling reproduce`: {error}") from error
        if any(other["data"] == data for other in found.get(name, ())):
            raise DataError(f"{path}: there are two summaries of {name} on {data}; keep one")
        found.setdefault(name, []).append(one)
    return found
