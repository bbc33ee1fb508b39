"""What benches measured, as JSON: one row for each comparison, from which the table of docs/results.md is made.

python bench/results.py    # writes the tables between their marks in docs/results.md, and docs/growth.svg
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "results.md"
CHART = Path(__file__).parent.parent / "docs" / "growth.svg"

Row = dict[str, Any]


class Spent(NamedTuple):
    """Milliseconds that a run took, on the wall and of the processor, all threads and child processes together."""

    wall: float
    cpu: float


def timed(run: Callable[[], object]) -> Spent:
    wall, cpu = time.perf_counter(), processor_time()
    run()
    return Spent(1000 * (time.perf_counter() - wall), 1000 * (processor_time() - cpu))


def processor_time() -> float:
    """Seconds, of this process and of those that it started and that have ended, as Java's."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


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


def growth_table(found: dict[str, Any]) -> str:
    lines = ["| what grows | sizes | time, exponent | memory, exponent |", "|---|---|---|---|"]
    for name, one in found.items():
        sizes, seconds, used = ((one[key][0], one[key][-1]) for key in ("sizes", "seconds", "bytes"))
        times = f"{shown(1000 * seconds[0])} to {shown(1000 * seconds[1])}, {one['time exponent']:.2f}"
        memory = f"{used[0] / 1e6:.0f} to {used[1] / 1e6:.0f} MB, {one['memory exponent']:.2f}"
        lines.append(f"| {name} | {sizes[0]:,} to {sizes[1]:,} | {times} | {memory} |")
    return "\n".join(lines)


def chart(found: dict[str, Any]) -> str:
    """Seconds over size, both as multiples of the smallest, on logarithmic axes; dashed: as the size grows."""
    steps = max(len(one["sizes"]) for one in found.values()) - 1
    unit, left, top = 90, 60, 20
    colours = ["#1b6ca8", "#c8553d", "#3c8d5a", "#8e5ea2", "#7a6a2f", "#444444"]

    def at(x: float, y: float) -> str:
        return f"{left + unit * x:.1f},{top + unit * (steps - y):.1f}"

    width, height = left + unit * steps + 130, top + unit * steps + 50
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             f'font-size="13"><rect width="{width}" height="{height}" fill="#fff"/>']  # fmt: skip
    for i in range(steps + 1):
        parts.append(f'<path d="M{at(i, 0)}L{at(i, steps)}M{at(0, i)}L{at(steps, i)}" stroke="#ddd"/>')
        parts.append(f'<text x="{left + unit * i}" y="{height - 30}" text-anchor="middle">{1 << i}</text>')
        parts.append(f'<text x="{left - 8}" y="{top + unit * (steps - i) + 4}" text-anchor="end">{1 << i}</text>')
    parts.append(f'<text x="{left + unit * steps / 2}" y="{height - 8}" text-anchor="middle">times the size</text>')
    parts.append(f'<text x="4" y="{top - 6}">times the seconds</text>')
    parts.append(f'<path d="M{at(0, 0)}L{at(steps, steps)}" stroke="#999" stroke-dasharray="5 4"/>')
    for row, ((name, one), colour) in enumerate(zip(found.items(), colours, strict=False)):
        points = " ".join(
            at(math.log2(size / one["sizes"][0]), math.log2(second / one["seconds"][0]))
            for size, second in zip(one["sizes"], one["seconds"], strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        place = f'x="{left + unit * steps + 12}" y="{top + 20 + 20 * row}"'
        parts.append(f'<text {place} fill="{colour}">{name} {one["time exponent"]:.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def marked(page: str, mark: str, text: str) -> str:
    """The page with the text between its marks."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE} has no marks {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def main() -> None:
    page = marked(PAGE.read_text(), "speeds", table())
    grown = RESULTS / "growth.json"
    if grown.exists():
        found = json.loads(grown.read_text())["grows"]
        page = marked(page, "growth", growth_table(found))
        CHART.write_text(chart(found))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
