"""Tables of the papers as runs that can be repeated: rows, the trainings behind them, and what the paper printed.

A job is one `groundling train`. A config field whose value begins with "@" is the folder of another job, which is
trained first; so is `start`. A job of one name is the same in all tables: tables in one folder share their runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from groundling.errors import GroundlingError, unknown

TABLES = {  # name -> module of this package that has it
    "pos-scan-table-1": "pos_scan",
    "pos-scan-table-2": "pos_scan",
    "pos-scan-table-3": "pos_scan",
    "pos-scan-table-4": "pos_scan",
    "pos-scan-figure-3": "pos_scan",
    "pos-scan-divergence": "pos_scan",
    "pos-scan-supervision": "pos_scan",
    "pos-scan-matchers": "pos_scan",
    "cyclical-table-1": "cyclical",
    "cyclical-table-2": "cyclical",
    "cyclical-table-4": "cyclical",
    "cyclical-table-6": "cyclical",
    "cyclical-table-7": "cyclical",
    "cyclical-table-10": "cyclical",
    "cyclical-table-11-perfect": "cyclical",
    "cyclical-table-11-biased": "cyclical",
    "cyclical-table-12": "cyclical",
    "cyclical-figure-4": "cyclical",
    "cyclical-image-map": "cyclical",
    "distributed-table-1": "distributed",
    "distributed-table-2": "distributed",
    "distributed-table-3": "distributed",
    "distributed-table-4": "distributed",
    "distributed-heads": "distributed",
    "distributed-figure-2": "distributed",
    "distributed-upper-bound": "distributed",
    "distributed-image-map": "distributed",
    "distributed-videos": "distributed",
    "nce-distill-table-4": "nce_distill",
    "nce-distill-table-5": "nce_distill",
    "nce-distill-table-5-vgg": "nce_distill",
    "nce-distill-referit": "nce_distill",
    "nce-distill-referit-vg": "nce_distill",
    "nce-distill-referit-vgg": "nce_distill",
    "nce-distill-no-detector": "nce_distill",
    "nce-distill-ours": "nce_distill",
    "contrastive-table-1": "contrastive",
    "contrastive-table-3": "contrastive",
    "contrastive-table-4": "contrastive",
    "contrastive-table-5": "contrastive",
    "contrastive-table-6": "contrastive",
    "combine": "combine",
}
ELSEWHERE = {  # tables of the papers that have no entry above -> where their rows are
    "cyclical-table-3": "its rows are in cyclical-table-11-perfect and cyclical-table-11-biased",
    "cyclical-table-5": "people answer it: see `groundling study --verbs`",
    "cyclical-table-8": "its rows are in cyclical-table-11-perfect",
    "cyclical-table-9": "its rows are in cyclical-table-6",
    "cyclical-table-11": "it is in two parts, cyclical-table-11-perfect and cyclical-table-11-biased",
    "cyclical-table-13": "it is cyclical-table-6 with several --seeds",
    "cyclical-table-14": "it is cyclical-table-2 with several --seeds",
    "nce-distill-table-1": "its rows are in nce-distill-table-4, nce-distill-table-5 and nce-distill-table-5-vgg",
    "nce-distill-table-2": "its rows are in nce-distill-referit, nce-distill-referit-vg and nce-distill-referit-vgg",
    "nce-distill-table-3": "no training is needed: see `groundling ground --cost`",
    "contrastive-table-2": "COCO's server scores it: `groundling caption --coco FILE` writes what is submitted",
}
SCORES = {  # heading -> name of our score, as the papers on grounded captions have them
    "B@1": "BLEU-1",
    "B@4": "BLEU-4",
    "M": "METEOR",
    "C": "CIDEr-D",
    "F1_all": "f1_all",
    "F1_loc": "f1_loc",
}
SPICE = "The paper's SPICE is not computed here; `groundling score --metrics spice` does it, with Java."

Value = int | float | str


@dataclass(frozen=True)
class Job:
    name: str  # of its folder
    recipe: str
    config: Mapping[str, Value] = field(default_factory=dict)
    start: str = ""  # name of the job that it begins with
    defaults: Mapping[str, Value] = field(default_factory=dict)  # config that --small and --set may change

    @property
    def needs(self) -> list[str]:
        """Names of the jobs before it."""
        named = [value[1:] for value in self.config.values() if isinstance(value, str) and value.startswith("@")]
        return [*([self.start] if self.start else []), *named]


@dataclass(frozen=True)
class Row:
    label: str  # as in the paper
    job: str
    paper: Mapping[str, float]  # by column


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    source: str  # what the paper's numbers were measured on; empty: there are none
    columns: Mapping[str, str]  # heading -> name of our score; the paper's scale is 100 times ours
    jobs: tuple[Job, ...]
    rows: tuple[Row, ...]
    note: str = ""  # printed below
    beam: int = 1  # width of the beam search for captions; 1: greedy
    baseline: str = ""  # the job that all rows are tested against; empty: that of the first row

    @property
    def self_retrieval(self) -> bool:
        """Whether its captions are to find their own images again."""
        return any(score.startswith("R@") for score in self.columns.values())

    def __post_init__(self) -> None:
        known = [job.name for job in self.jobs]
        wanted = {row.job for row in self.rows} | {name for job in self.jobs for name in job.needs}
        if len(set(known)) < len(known) or not wanted <= set(known):
            raise ValueError(f"{self.name}: jobs are named once, and all that are needed: {wanted ^ set(known)}")

    def order(self, rows: Sequence[Row]) -> list[Job]:
        """The jobs of these rows and all that they need, each after what it needs."""
        jobs = {job.name: job for job in self.jobs}
        found: dict[str, Job] = {}

        def visit(name: str, above: tuple[str, ...]) -> None:
            if name in above:
                raise ValueError(f"{self.name}: {name} needs itself")
            for needed in jobs[name].needs:
                visit(needed, (*above, name))
            found[name] = jobs[name]

        for row in rows:
            visit(row.job, ())
        return list(found.values())


def matching(patterns: Sequence[str]) -> list[str]:
    """The tables whose names fit any of the patterns ("pos-scan-*"); GroundlingError if a pattern fits none."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in TABLES):
            raise _unknown(pattern)
    return [name for name in TABLES if any(fnmatchcase(name, pattern) for pattern in patterns)]


def table(name: str) -> Table:
    if name not in TABLES:
        raise _unknown(name)
    module = importlib.import_module(f"{__name__}.{TABLES[name]}")
    found: Mapping[str, Table] = module.TABLES
    return found[name]


def _unknown(name: str) -> GroundlingError:
    """`name` may be a pattern."""
    if found := [f"{one} has no run of its own: {where}" for one, where in ELSEWHERE.items() if fnmatchcase(one, name)]:
        return GroundlingError("\n".join(found))
    return GroundlingError(unknown("table", name, TABLES))
