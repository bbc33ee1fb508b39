"""What an audit found, in numbers: the share of each verdict with its interval, by class of noun, and two systems
side by side."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from groundling.audit.verdicts import CANNOT_TELL, NOT_THERE, VERDICTS
from groundling.errors import DataError
from groundling.metrics.significance import Comparison, Interval, compare, intervals
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.text.noun_kinds import CLASSES, kind_of
from groundling.types import html_table

SAMPLES = 1000  # resamples of captions for an interval
NAMES = re.compile(r"""'[^']*'|"[^"]*\"""")  # in an error


@dataclass
class Summary:
    """Counts of verdicts, caption by caption."""

    ids: list[str] = field(default_factory=list)
    counts: list[tuple[int, ...]] = field(default_factory=list)  # of each caption, in the order of VERDICTS
    by_class: dict[str, Counter[str]] = field(default_factory=dict)
    by_word: Counter[str] = field(default_factory=Counter)  # lemmas that are not there
    unknown: Counter[str] = field(default_factory=Counter)  # lemmas of which nobody can tell
    errors: Counter[str] = field(default_factory=Counter)
    problems: int = 0

    @property
    def nouns(self) -> int:
        return sum(map(sum, self.counts))

    def share(self, verdict: str) -> float:
        """Of all nouns; NaN where there are none."""
        column = VERDICTS.index(verdict)
        return sum(row[column] for row in self.counts) / self.nouns if self.nouns else math.nan

    def statistics(self) -> list[Statistics]:
        """The share of each verdict, as a function of sums over captions."""
        values = np.array(self.counts, float).reshape(-1, len(VERDICTS))
        return [
            Statistics(
                name, signature(name.replace(" ", "_"), of="nouns"), tuple(self.ids), values, partial(_share, column=i)
            )
            for i, name in enumerate(VERDICTS)
        ]

    def intervals(self) -> list[Interval]:
        return intervals(self.statistics(), SAMPLES) if self.nouns else []

    def classes(self) -> list[dict[str, Any]]:
        """Each class of nouns with its shares; the interval of "not there" is Wilson's."""
        rows = []
        for name in CLASSES:
            found = self.by_class.get(name, Counter())
            if n := found.total():
                shares = {verdict: found[verdict] / n for verdict in VERDICTS}
                rows.append({"class": name, "nouns": n, **shares, "interval": list(wilson(found[NOT_THERE], n))})
        return rows

    def _repr_html_(self) -> str:
        """In a notebook: the share of each verdict, and of each class of nouns."""
        shares = [[one.name, f"{one.value:.1%}", f"{one.low:.1%} to {one.high:.1%}"] for one in self.intervals()]
        names = ("class", "nouns", *VERDICTS)
        rows = [[row["class"], str(row["nouns"]), *(f"{row[name]:.1%}" for name in VERDICTS)] for row in self.classes()]
        return html_table(("verdict", "share", "95 %"), shares) + html_table(names, rows)

    def to_dict(self) -> dict[str, Any]:
        ends = {one.name: [one.low, one.high] for one in self.intervals()}
        return {
            "captions": len(self.ids),
            "nouns": self.nouns,
            "shares": {name: _number(self.share(name)) for name in VERDICTS},
            "intervals": ends,
            "classes": self.classes(),
            "not_there": self.by_word.most_common(20),
            "cannot_tell": self.unknown.most_common(20),
            "not_checked": dict(self.errors),
            "captions_with_problems": self.problems,
        }


def summarise(lines: Iterable[dict[str, Any]]) -> Summary:
    """Of the lines of an audit. A caption is known by its image, and its number among those of the image."""
    found = Summary()
    seen: Counter[str] = Counter()
    of_kind: dict[str, str] = {}  # an error without the name in it -> the first of its kind
    for line in lines:
        if "error" in line:
            reason = _reason(str(line["error"]))
            found.errors[of_kind.setdefault(NAMES.sub("''", reason), reason)] += 1
            continue
        image = str(line.get("image", ""))
        found.ids.append(f"{image}#{seen[image]}")
        seen[image] += 1
        found.problems += bool(line.get("problems"))
        count = Counter(_count(found, phrase) for phrase in line["phrases"])
        found.counts.append(tuple(count[name] for name in VERDICTS))
    return found


def _count(found: Summary, phrase: dict[str, Any]) -> str:
    verdict, lemma = phrase.get("verdict"), str(phrase.get("lemma", ""))
    if verdict not in VERDICTS:
        raise DataError(f"unknown verdict {verdict!r}; there are {', '.join(VERDICTS)}")
    found.by_class.setdefault(kind_of(lemma), Counter())[verdict] += 1
    if verdict == NOT_THERE:
        found.by_word[lemma] += 1
    elif verdict == CANNOT_TELL:
        found.unknown[lemma] += 1
    return str(verdict)


def compared(ours: Summary, theirs: Summary) -> tuple[list[Comparison], int]:
    """Paired tests on the captions that both have, and how many those are. `theirs` is the baseline."""
    known = set(theirs.ids)
    shared = [id for id in ours.ids if id in known]
    if not shared:
        raise DataError("the two audits have no image in common: compare captions of the same images")
    both = [_only(one, shared) for one in (theirs, ours)]
    return compare(both[0].statistics(), both[1].statistics(), SAMPLES), len(shared)


def _only(summary: Summary, ids: list[str]) -> Summary:
    rows = dict(zip(summary.ids, summary.counts, strict=True))
    return Summary(ids, [rows[id] for id in ids])


def wilson(count: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not n:
        return math.nan, math.nan
    p = count / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


def _share(sums: Array, column: int) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., column] / sums.sum(-1))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _reason(text: str) -> str:
    """Errors are counted by kind: without the names of files."""
    return text.rpartition(": ")[2][:120]
