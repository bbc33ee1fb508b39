"""Write what the stored scores of the papers' tables make: docs/papers.md, and numbers of recipes in the README.

    python tools/papers_pages.py [--add OUT/summaries …]

The summaries are docs/papers/*.json; --add first adds those of folders that `groundling reproduce` has written: rows
that were run elsewhere stay (`summary.merged`).
A line of the README's table names a score and, last, rows of a table: the numbers before it are those of these rows,
the paper's and ours on drawn scenes, the first row before an arrow. A star: the difference has p < 0.05.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from groundling.papers.claims import CLAIMS
from groundling.papers.page import page
from groundling.papers.summary import ALPHA, DIRECTION, Summaries, merged, read, write
from groundling.papers.tables import Table, table

ROOT = Path(__file__).resolve().parent.parent
SCORES = {  # of the README -> our scores
    "attention": "attention",
    "F1_loc": "f1_loc",
    "CIDEr-D": "CIDEr-D",
    "accuracy": "recall@1 any argmax",
}
DRAWN = ("scenes", "moving")  # data that the README shows
NOTE = f"""\
Seeds are 0, 1 and 2 (0 and 1 of `pos-scan-table-4`). A claim on drawn scenes that these left at “{DIRECTION}”
is to get seeds 3, 4 and 5 for both its rows; other claims on the same rows then have them, too. That was decided before
any of these was run; which claims came first was not: two that share their rows, one with the least p of all such
claims, then one whose runs are the shortest, then two that share their rows, whose stored runs came out again. {{done}}
claims on drawn scenes have more than three seeds so far, {{due}} that are to get them have not. What comes of them is
told whatever it is, and no seed is left out. A second look at some claims makes p < {ALPHA} by chance more likely: the
column “seeds” says which.

All rows of `cyclical-table-11-perfect` were trained anew by one code on a later machine, an AMD EPYC; what they
replace, runs of a second machine, on which the same seed trains another model, is in CHANGELOG.md, as is what those
replaced of the first. The verdict hangs on which runs are stored: that cyclical training helps with a perfect detector
is confirmed by these six seeds and was not seen with those of the second machine. The 15 pairs of all three machines
together do not confirm it by the seeds alone.

Of the same later machine are K = 3 and K = 5 of `distributed-table-2`, “Zero-loss” of `cyclical-table-6`, and all rows
of `distributed-heads`, `distributed-table-3`, `distributed-figure-2`, `distributed-upper-bound`, and all of Ma et al.
but those of `cyclical-table-4` and the other rows of `cyclical-table-6`. What the first machine had trained of these,
and was trained there again to compare with, has the scores of the first within 1e-15: the baselines, the cycle, K = 2,
4 heads, and K = 4 with and without elimination. The claims of `distributed-heads`, `distributed-table-3` and
`cyclical-table-2` now draw more samples of the same runs. The other rows and the claims on them stay as the first made
them. `cyclical-table-12` has the runs of `cyclical-table-2`, which are scored on test here, too.

`nce-distill-ours`, `nce-distill-table-5`, `contrastive-table-3` and what was run of `combine` are of that machine, too.
On drawn scenes the second has the regions of `nce-distill-table-4`, and differs from it in the weight of distillation
alone: its row “NCE” has the stored scores again, but in the columns of our choice of regions, whose rules have changed
since. The third has no posts there: of each image one caption at a time is learned from.

Up-Down has a backward pass of its own on the CPU since the first machine's rows of it were made: the same seed now
trains another captioner. So all rows of `pos-scan-table-1` and `pos-scan-table-2` on drawn scenes were trained anew, by
one code on the later machine; the means that they replace are in CHANGELOG.md. That the score of SCAN in the reward
helps grounding, which was to get more seeds, is the opposite since. SCAN and POS-SCAN, which have no Up-Down, came out
again with the first machine's scores. Of that code and machine are all other tables of Zhou et al. on drawn scenes,
too, and share their runs. On drawn scenes both rows of `pos-scan-table-3` have the same regions, and differ in λ1
alone.

On photos, two rows of `cyclical-table-6` were run on that machine, too, with the sizes of scenes: neither captioner
grounds enough, after so few photos, for a comparison.

Of the code that trained the tables of Zhou et al. anew everything that ran is here: which rows did hung on the time
that there was, never on what came out.
"""
FIRST = "| recipe | what it is |"  # begins the table
NOT_RUN = "·"
FEW_SEEDS = 3


def note(found: Summaries) -> str:
    """NOTE with the numbers of claims on drawn data that have more seeds, and that are to get them."""
    claims = [
        one
        for each in found.values()
        for summary in each
        if summary["data"] in DRAWN
        for one in summary["claims"].values()
        if one
    ]
    more = [len(one["seeds"]) > FEW_SEEDS for one in claims]
    due = sum(one["verdict"] == DIRECTION and not many for one, many in zip(claims, more, strict=True))
    return NOTE.format(done=sum(more), due=due)


def readme(text: str, found: Summaries) -> str:
    """The README with the numbers of its table of recipes made from the summaries."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(FIRST))
    for i in range(start + 2, lines.index("", start)):
        name, what, score, _, _, command = lines[i].strip("|").split(" | ")
        of, _, numbers = command.strip(" |`").partition(" --rows ")
        chosen, rows = table(of), [int(number) - 1 for number in numbers.split(",")]
        cells = [name.strip(), what, score, printed(chosen, rows, SCORES[score])]
        cells += [ours(chosen, rows, SCORES[score], found), command.strip(" |")]
        lines[i] = ("| " + " | ".join(cells) + " |").replace("|  |", "| |")
    return "\n".join(lines)


def printed(of: Table, rows: Sequence[int], score: str) -> str:
    """The paper's numbers of rows of a table, which count from 0."""
    heading = next(name for name, own in of.columns.items() if own == score)
    numbers = [of.rows[row].paper.get(heading) for row in rows]
    return " → ".join(f"{x:.1f}" for x in numbers if x is not None) if None not in numbers else "ours alone"


def ours(of: Table, rows: Sequence[int], score: str, found: Summaries) -> str:
    """Our means over the seeds that all these rows have, starred where the difference is sure; else NOT_RUN."""
    jobs = [of.rows[row].job for row in rows]
    for summary in found.get(of.name, ()):
        cells = [summary["rows"].get(job, {}).get(score) for job in jobs]
        seeds = set.intersection(*(set(cell["values"]) for cell in cells)) if all(cells) else set()
        if summary["data"] in DRAWN and seeds:
            means = " → ".join(f"{100 * fmean(cell['values'][seed] for seed in seeds):.1f}" for cell in cells)
            return means + ("*" if len(jobs) == 2 and sure(of, rows, score, summary) else "")
    return NOT_RUN


def sure(of: Table, rows: Sequence[int], score: str, summary: Mapping[str, Any]) -> bool:
    """Whether the second row differs from the first: by the test against the baseline, or by that of a claim."""
    first, second = (of.rows[row] for row in rows)
    if summary["baseline"] == first.label:
        tests = [summary["rows"][second.job][score]]
    else:
        told = [c for c in CLAIMS if (c.table, c.score, {c.job, c.than}) == (of.name, score, {first.job, second.job})]
        tests = [summary["claims"].get(claim.text) for claim in told]
    return any(test and test["p"] is not None and test["p"] < ALPHA for test in tests)


def add(file: Path, stored: Path) -> None:
    """Write a summary to the folder of those that are stored, with the rows that the stored one has besides."""
    new, path = json.loads(file.read_bytes()), stored / file.name
    write(stored, merged(json.loads(path.read_bytes()), new) if path.exists() else new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="FOLDER", help="summaries to add first")
    stored = ROOT / "docs" / "papers"
    for folder in parser.parse_args().add:
        for file in sorted(folder.glob("*.json")):
            add(file, stored)
    found = read(stored)
    (ROOT / "docs" / "papers.md").write_text(page(found, note(found)), encoding="utf-8")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (ROOT / "README.md").write_text(readme(text, found), encoding="utf-8")


if __name__ == "__main__":
    main()
