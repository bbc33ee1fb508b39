"""A page of results, made from the summaries of tables alone: claims with verdicts, then every table that was run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from groundling.metrics.spread import Spread
from groundling.papers.claims import CLAIMS, Claim
from groundling.papers.summary import ALPHA, CONFIRMED, Summaries, of_seeds, seeds_of
from groundling.papers.tables import TABLES, Row, Table, table
from groundling.papers.unconfirmed import unconfirmed

CLAIM_HEADS = """\
| claim | score | paper | data | ours | p | p of seeds | seeds | verdict | rows of `reproduce` |
|---|---|---|---|---|---|---|---|---|---|"""
NO_BREAK = "\N{NO-BREAK SPACE}"  # numbers stay on one line in narrow columns
ARROW = f"{NO_BREAK}→{NO_BREAK}"
ONCE_DRAWN = 1_000  # samples of the tests in summaries that do not tell how many
INTRODUCTION = f"""\
Made by `groundling reproduce --page FILE` from the stored scores of the runs; no number here is written by hand. Scores
are × 100. The papers' are of photographs and large detectors, ours of the data that each table names: compare the
differences between rows, not the rows themselves.

- **p** is of a paired test on the same images and seeds, which draws both (`groundling/papers/summary.py`).
- A claim is *{CONFIRMED}* where the difference has the claim's sign and p < {ALPHA}.
- **p of seeds** is of a paired t-test on the differences of the seeds alone, which takes them to be normal: with few
  seeds p knows little of the chance in training. No verdict depends on it.
- A star in a table marks p < {ALPHA} against the table's baseline, not corrected for the number of tests.
- `--small` in a command are sizes and rates that suit drawn scenes (`groundling/papers/tables/small.py`), the same for
  all rows of a table.
"""


def page(found: Summaries, note: str = "") -> str:
    """Markdown; `found`: summaries by table (`papers.summary.read`). `note`: what else is to be known of these runs."""
    run = {name: [one for one in found.get(name, ()) if one["rows"]] for name in TABLES}
    parts = ["# The papers, measured\n", INTRODUCTION, *_claims(run), *([note] if note else [])]
    for name, each in run.items():
        for one in each:
            parts += _table(table(name), one)
    parts += _not_run([table(name) for name, each in run.items() if not each])
    return "\n".join(parts).rstrip("\n") + "\n"


# ---------------------------------------------------------------- claims


def _claims(found: Summaries) -> Iterator[str]:
    results = {claim: _results(claim, found) for claim in CLAIMS}
    found_of = [(claim.text, one) for claim, each in results.items() for one in each.values()]
    of_training = [(one["p of seeds"], one["verdict"]) for _, one in found_of if one["p of seeds"] is not None]
    run = {text for text, _ in found_of}
    confirmed = {text for text, one in found_of if one["verdict"] == CONFIRMED}
    tests = [one["p"] for _, one in found_of if one["p"] is not None]
    stated = len({claim.text for claim in CLAIMS})
    yield f"## Claims\n\n{stated} claims: {len(run)} were tested, {len(confirmed)} of these are {CONFIRMED}."
    drawn = [one.get("samples", ONCE_DRAWN) for _, one in found_of if one["p"] is not None]
    passed = holm(tests)
    yield f"Of the {len(tests)} tests, {passed} {'has' if passed == 1 else 'have'} p < {ALPHA} after Holm's correction."
    yield _drawn(drawn)
    yield f"At a false discovery rate of {ALPHA} (Benjamini and Hochberg) {discoveries(tests)} are significant,"
    yield "those that show the opposite of a claim included."
    yield _by_seeds(of_training) + "\n"
    for paper in dict.fromkeys(claim.paper for claim in CLAIMS):
        yield f"### {paper}\n\n{CLAIM_HEADS}"
        for claim, each in results.items():
            if claim.paper == paper:
                yield from [_claim(claim, data, each[data]) for data in each] or [_claim(claim)]
        yield ""
    yield from unconfirmed(found)


def _by_seeds(tests: Sequence[tuple[float, str]]) -> str:
    """Sentences on the t-tests of the seeds alone: their p, and the verdicts that images and seeds together have."""
    verdicts = Counter(verdict for p, verdict in tests if p < ALPHA)
    told = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
    return (
        f"Of the seeds alone {len(tests)} can be tested (three seeds or more): {verdicts.total()} have p < {ALPHA}"
        f"{f' (verdicts: {told})' if told else ''},\n{holm([p for p, _ in tests])} after Holm's correction. "
        "By their signs alone no p is below 2^(1 − n), 0.25 of three seeds and 0.03 of six."
    )


def _drawn(samples: Sequence[int]) -> str:
    """A sentence on the numbers of samples that the tests draw, and on what Holm's correction can then find at all."""
    told = ", ".join(f"{tests} draw {n:,} samples" for n, tests in sorted(Counter(samples).items()))
    most = holm([1 / (n + 1) for n in samples])
    return f"({told or 'None'}; of n samples no p is below 1 / (n + 1), so that at most {most} can.)"


def holm(values: Sequence[float]) -> int:
    """How many of these p-values are below ALPHA by Holm's method, which allows for their number."""
    passed = (value < ALPHA / (len(values) - i) for i, value in enumerate(sorted(values)))
    return sum(1 for _ in takewhile(bool, passed))


def discoveries(values: Sequence[float]) -> int:
    """How many of these p-values are significant at a false discovery rate of ALPHA, by Benjamini and Hochberg."""
    return max((i for i, value in enumerate(sorted(values), 1) if value <= ALPHA * i / len(values)), default=0)


def _results(claim: Claim, found: Summaries) -> dict[str, Mapping[str, Any]]:
    """What was found of a claim, by data set, with the p of its seeds alone."""
    return {
        one["data"]: {**result, "p of seeds": of_seeds(one, claim)}
        for one in found.get(claim.table, ())
        if (result := one["claims"].get(claim.text))
    }


def _claim(claim: Claim, data: str = "", result: Mapping[str, Any] | None = None) -> str:
    printed = f"{claim.printed[1]:g}{ARROW}{claim.printed[0]:g}"
    score = claim.score if not claim.than_score else f"{claim.than_score} → {claim.score}"
    rows = [i for i, row in enumerate(table(claim.table).rows, start=1) if row.job in (claim.job, claim.than)]
    how = f"`{claim.table} --rows {','.join(map(str, rows))}`"
    if result is None:
        return f"| {claim.text} | {score} | {printed} | | | | | | not run | {how} |"
    ours, theirs = (100 * value for value in result["ours"])
    p, of_training = ("" if result[name] is None else _p(result[name]) for name in ("p", "p of seeds"))
    verdict = f"**{result['verdict']}**" if result["verdict"] == CONFIRMED else result["verdict"]
    seeds = str(len(result["seeds"]))
    cells = (claim.text, score, printed, data, f"{theirs:.1f}{ARROW}{ours:.1f}", p, of_training, seeds, verdict, how)
    return "| " + " | ".join(cells) + " |"


def _p(value: float) -> str:
    return f"<{NO_BREAK}0.001" if value < 0.001 else f"{value:.3f}"


# ---------------------------------------------------------------- tables


def _table(of: Table, found: Mapping[str, Any]) -> Iterator[str]:
    """Without the columns that the table has got since the summary was made."""
    known = {score for row in found["rows"].values() for score in row}
    of, images = replace(of, columns={name: x for name, x in of.columns.items() if x in known}), found["images"]
    yield f"## {of.title} ({found['data']})\n"
    yield f"`{of.name}`, on {images['scored']:,} images of {found['data']}, {found['split']};"
    yield f"{images['train']:,} were trained on, {images['held out']:,} held out to choose epochs;"
    yield f"regions: {images['regions']}. Stars: against “{found['baseline']}”.\n"
    yield f"```console\n$ {found['command']}\n```\n"
    printed = {name for row in of.rows for name in row.paper}
    heads = [head for name in of.columns for head in ([name, "paper"] if name in printed else [name])]
    yield "| | " + " | ".join(heads) + " | seeds |\n|" + "---|" * (len(heads) + 2)
    for row in of.rows:
        yield _row(row, of, found["rows"].get(row.job), printed)
    if len({frozenset(seeds_of(found["rows"][row.job])) for row in of.rows if row.job in found["rows"]}) > 1:
        yield "\nNot all rows have the same seeds: compare two rows over the seeds that both have, as the tests do."
    yield from ("", *_details(of, found))


def _row(row: Row, of: Table, cells: Mapping[str, Any] | None, printed: set[str]) -> str:
    line = [row.label]
    for name, score in of.columns.items():
        line.append("not run" if cells is None else _cell(cells.get(score)))
        if name in printed:
            line.append(f"{row.paper[name]:g}" if name in row.paper else "")
    return "| " + " | ".join([*line, str(len(seeds_of(cells or {})))]) + " |"


def _cell(cell: Mapping[str, Any] | None) -> str:
    values = _values(cell)
    if cell is None or not values:
        return "–"
    spread = Spread("", tuple(values.values()), "")
    deviation = "" if math.isnan(spread.deviation) else f" ± {100 * spread.deviation:.1f}"
    return f"{100 * spread.mean:.1f}{deviation}" + ("*" if cell["p"] is not None and cell["p"] < ALPHA else "")


def _values(cell: Mapping[str, Any] | None) -> dict[str, float]:
    return {seed: value for seed, value in (cell["values"] if cell else {}).items() if value is not None}


def _details(of: Table, found: Mapping[str, Any]) -> Iterator[str]:
    """Values of every seed, and what the scores are by their signatures."""
    yield '<details markdown="1"><summary>each seed, signatures</summary>\n'
    yield "| | score | by seed | p |\n|---|---|---|---|"
    signatures: dict[str, None] = {}
    for row in of.rows:
        for score in of.columns.values():
            cell = found["rows"].get(row.job, {}).get(score)
            if values := _values(cell):
                each = ", ".join(f"{seed}: {100 * value:.2f}" for seed, value in values.items())
                yield f"| {row.label} | {score} | {each} | {'' if cell['p'] is None else _p(cell['p'])} |"
                signatures[cell["signature"]] = None
    yield "\n" + "\n".join(f"- `{signature}`" for signature in signatures) + "\n\n</details>\n"


def _not_run(tables: list[Table]) -> Iterator[str]:
    if tables:
        yield "## Not run\n\n| table | command |\n|---|---|"
        yield from (f"| {of.title} | `groundling reproduce {of.name} --data DATA --regions STORE` |" for of in tables)
