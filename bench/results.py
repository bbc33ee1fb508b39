"""What benches measured, as JSON: one row for each comparison, from which the table of docs/results.md is made.

python bench/results.py    # writes the table between its marks in docs/results.md, of bench/results/*.json
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "results.md"
MARKS = "<!-- speeds -->", "<!-- end of speeds -->"

Row = dict[str, Any]


class Spent(NamedTuple):
    """Milliseconds that a run took, on the wall and of the processor, all threads together."""

    wall: float
    cpu: float


def timed(run: Callable[[], object]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Spent(1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu))


def compare(rounds: int, theirs: Callable[[], object], ours: Callable[[], object]) -> list[tuple[Spent, Spent]]:
    """Both in turns, so that a busy machine slows both alike; one round before, to warm up."""
    pairs = [(timed(theirs), timed(ours)) if i % 2 else (timed(ours), timed(theirs))[::-1] for i in range(rounds + 1)]
    return pairs[1:]


def row(what: str, pairs: Sequence[tuple[Spent, Spent]], threads: int) -> Row:
    """(theirs, ours) of each round; the ratios are medians of the rounds' ratios."""
    return {
        "what": what,
        "theirs_ms": round(statistics.median(theirs.wall for theirs, _ in pairs), 3),
        "ours_ms": round(statistics.median(ours.wall for _, ours in pairs), 3),
        "ratio": round(statistics.median(theirs.wall / ours.wall for theirs, ours in pairs), 2),
        "cpu_ratio": round(statistics.median(theirs.cpu / max(ours.cpu, 1e-6) for theirs, ours in pairs), 2),
        "rounds": len(pairs),
        "threads": threads,
        "load": round(os.getloadavg()[0], 1),
    }


def told(one: Row) -> str:
    return (
        f"{one['what']}: theirs {shown(one['theirs_ms'])}, ours {shown(one['ours_ms'])}, {one['ratio']:.2f} times by "
        f"the wall, {one['cpu_ratio']:.2f} by the processor (load {one['load']:.1f})"
    )


def write(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows), indent=1) + "\n")


def table(folder: Path = RESULTS) -> str:
    """The rows of all files as Markdown."""
    lines = [
        "| what | theirs | ours | ratio | of processor time | threads, rounds | load |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.json")):
        rows = json.loads(path.read_text())
        for one in rows if isinstance(rows, list) else ():  # growth and load are no comparisons with others' code
            times = (
                f"{shown(one['theirs_ms'])} | {shown(one['ours_ms'])} | {one['ratio']:.1f} × | {one['cpu_ratio']:.1f} ×"
            )
            lines.append(f"| {one['what']} | {times} | {one['threads']}, {one['rounds']} | {one['load']:.1f} |")
    return "\n".join(lines)


def shown(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"


def main() -> None:
    begin, end = MARKS
    text = PAGE.read_text()
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{PAGE} has no marks {begin} and {end} for the table")
    PAGE.write_text(pattern.sub(lambda _: f"{begin}\n{table()}\n{end}", text))


if __name__ == "__main__":
    main()
