"""A table of a paper on one's own data: every row trained, captioned and scored; what is done is not done again."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from groundling import api
from groundling.data.dataset import Dataset, load
from groundling.errors import DataError, GroundlingError
from groundling.judge import Judge
from groundling.pointing import attention_accuracy
from groundling.recipes import recipe_class
from groundling.recipes.run import train
from groundling.regions.store import Store
from groundling.tables import Job, Row, Table, Value
from groundling.train.checkpoint import atomic
from groundling.types import Score

logger = logging.getLogger(__name__)

SCORES = "scores.json"
METRICS = ("bleu", "rouge", "cider-d", "meteor")


@dataclass(frozen=True)
class Bench:
    """Where rows are tried: data, regions, folder of the runs, and knobs that all recipes with such fields get.

    `knobs` are by name, or by recipe and name ("scst.epochs"), which counts more; those of a row count most.
    """

    data: Path
    regions: Path
    out: Path
    knobs: Mapping[str, Value]
    split: str = "val"
    limit: int = 0  # of the training images; 0: all

    def folder(self, name: str, seed: int) -> Path:
        return self.out / f"{name}-{seed}"

    def settings(self, job: Job, seed: int) -> dict[str, Value]:
        """The knobs of a job, other jobs as folders."""
        known = {f.name for f in fields(recipe_class(job.recipe))}
        common = {name: value for name, value in self.knobs.items() if name in known}
        own = {k.partition(".")[2]: v for k, v in self.knobs.items() if k.partition(".")[0] == job.recipe}
        if odd := own.keys() - known:
            raise GroundlingError(f"{job.recipe} has no knob {min(odd)}; see `groundling train {job.recipe} --help`")
        chosen = common | own | dict(job.knobs)

        def place(value: Value) -> Value:
            return str(self.folder(value[1:], seed)) if isinstance(value, str) and value.startswith("@") else value

        return {name: place(value) for name, value in chosen.items()}

    def command(self, job: Job, seed: int) -> str:
        """What one would type to train it."""
        words = ["groundling", "train", job.recipe, "--data", self.data, "--regions", self.regions]
        words += ["--out", self.folder(job.name, seed), "--seed", seed]
        words += ["--start", self.folder(job.start, seed)] if job.start else []
        words += ["--limit", self.limit] if self.limit else []
        for name, value in self.settings(job, seed).items():
            words += [f"--{name.replace('_', '-')}", value]
        return shlex.join(map(str, words))


def reproduce(table: Table, rows: Sequence[Row], bench: Bench, seeds: Sequence[int]) -> dict[str, list[list[Score]]]:
    """The scores of each row, by its job: one list for each seed. Trains and scores only what is not there yet."""
    data = load(bench.data)
    judge = Judge.of(bench.data, bench.split)
    store = Store.open(bench.regions)
    done: dict[str, list[list[Score]]] = {row.job: [] for row in rows}
    jobs = table.order(rows)
    for seed in seeds:
        for number, job in enumerate(jobs, start=1):
            logger.info("seed %d, %d of %d: %s", seed, number, len(jobs), bench.command(job, seed))
            scores = _job(job, bench, seed, data, judge, store)
            if job.name in done:
                done[job.name].append(scores)
    return done


def _job(job: Job, bench: Bench, seed: int, data: Dataset, judge: Judge, store: Store) -> list[Score]:
    folder = bench.folder(job.name, seed)
    command, path = bench.command(job, seed), folder / SCORES
    if path.exists():
        return _read(path, command)
    examples = data.split("train")
    if bench.limit:
        examples = replace(examples, examples=examples.examples[: bench.limit])
    start = bench.folder(job.start, seed) if job.start else None
    recipe = recipe_class(job.recipe)(**bench.settings(job, seed))
    train(recipe, examples, data.split(bench.split), store, folder, start=start, seed=seed)
    scores = list(_scores(folder, bench.split, data, judge, store))
    with atomic(path) as file:
        row = {"command": command, "scores": [asdict(score) for score in scores]}
        file.write(json.dumps(row, indent=1).encode())
    return scores


def _scores(folder: Path, split: str, data: Dataset, judge: Judge, store: Store) -> Iterator[Score]:
    """All that a model can be judged by: what it says and points at, where it looks while people speak."""
    pointer = api.load(folder)
    if judge.links:
        found = attention_accuracy(pointer.model, data, store, split, device=pointer.device)
        yield from (replace(statistics.score(), name="attention") for statistics in found.statistics().values())
    if "captioner" not in pointer.model.recipe.keeps:
        yield from pointer.model.scores
        return
    said = list(pointer.captions_of(store, [example.id for example in judge.examples]))
    yield from judge(said, METRICS).scores


def _read(path: Path, command: str) -> list[Score]:
    try:
        row = json.loads(path.read_bytes())
        if row["command"] != command:
            raise GroundlingError(
                f"{path.parent} was made by another command: {row['command']}. Choose another --out, or delete it"
            )
        return [Score(**score) for score in row["scores"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} does not hold scores: {error}; delete it to score the run again") from error
