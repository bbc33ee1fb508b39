"""A table of a paper on one's own data: every row trained, captioned and scored; what is done is not done again.

A run's folder gets `command.txt` when it is trained to the end, and `scores-SPLIT.json` for each split that it was
scored on, which another version of the package writes anew. Training holds out val, whatever is scored: the same runs
can be scored on test later.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch

from groundling import __version__, inference
from groundling.data.dataset import Dataset, load
from groundling.data.loader import Loader
from groundling.errors import DataError, GroundlingError
from groundling.evaluation.attention_accuracy import attention_accuracy
from groundling.evaluation.evaluator import CaptionEvaluator
from groundling.evaluation.phrases import localised
from groundling.evaluation.self_retrieval import Gallery
from groundling.files import saved
from groundling.inference.grounder import PhraseGrounder
from groundling.metrics.diversity import self_retrieval
from groundling.metrics.statistics import Statistics
from groundling.models.grounder import Grounder
from groundling.papers.tables import Job, Row, Table, Value
from groundling.recipes import Model, recipe_class
from groundling.recipes._matching import retrieve
from groundling.regions.store import Store
from groundling.training.run import train
from groundling.types import Score

logger = logging.getLogger(__name__)

COMMAND = "command.txt"
METRICS = ("bleu", "rouge", "cider-d", "meteor")
RANKS = (1, 5, 10, 50, 500)  # of self-retrieval, as far as there are images
IMAGES = 64  # read from the store at once


@dataclass(frozen=True)
class Bench:
    """Where rows are tried: data, regions, folder of the runs, and config that all recipes with such fields get.

    `config` are by name, or by recipe and name ("scst.epochs"), which counts more; those of a row count most.
    """

    data: Path
    regions: Path
    out: Path
    config: Mapping[str, Value]
    split: str = "val"  # that is scored
    limit: int = 0  # of the training images; 0: all
    device: str = ""  # empty: cuda where there is one

    def folder(self, name: str, seed: int) -> Path:
        return self.out / f"{name}-{seed}"

    def settings(self, job: Job, seed: int) -> dict[str, Value]:
        """The config of a job, other jobs as folders."""
        known = {f.name for f in fields(recipe_class(job.recipe))}
        common = {name: value for name, value in self.config.items() if name in known}
        own = {k.rpartition(".")[2]: v for k, v in self.config.items() if k.rpartition(".")[0] == job.recipe}

        def place(value: Value) -> Value:
            return str(self.folder(value[1:], seed)) if isinstance(value, str) and value.startswith("@") else value

        return {name: place(value) for name, value in (common | own | dict(job.config)).items()}

    def command(self, job: Job, seed: int) -> str:
        """What one would type to train it."""
        words = ["groundling", "train", job.recipe, "--data", self.data, "--regions", self.regions]
        words += ["--out", self.folder(job.name, seed), "--seed", seed]
        words += ["--start", self.folder(job.start, seed)] if job.start else []
        words += ["--limit", self.limit] if self.limit else []
        words += ["--device", self.device] if self.device else []
        for name, value in self.settings(job, seed).items():
            words += [f"--{name.replace('_', '-')}", int(value) if isinstance(value, bool) else value]
        return shlex.join(map(str, words))


def reproduce(table: Table, rows: Sequence[Row], bench: Bench, seeds: Sequence[int]) -> dict[str, list[list[Score]]]:
    """The scores of each row, by its job: one list for each seed. Trains and scores only what is not there yet."""
    data = load(bench.data)
    evaluator = CaptionEvaluator.of(bench.data, bench.split)
    store = Store.open(bench.regions)
    done: dict[str, list[list[Score]]] = {row.job: [] for row in rows}
    jobs = table.order(rows)
    for seed in seeds:
        for number, job in enumerate(jobs, start=1):
            logger.info("seed %d, %d of %d: %s", seed, number, len(jobs), bench.command(job, seed))
            _train(job, bench, seed, data, store)
            if job.name in done:
                done[job.name].append(_scores(bench.folder(job.name, seed), bench, table, data, evaluator, store))
    return done


def _train(job: Job, bench: Bench, seed: int, data: Dataset, store: Store) -> None:
    """Train a job to its end, unless that was done before."""
    folder, command = bench.folder(job.name, seed), replace(bench, device="").command(job, seed)
    path = folder / COMMAND
    if path.exists():
        if (before := path.read_text(encoding="utf-8").strip()) != command:
            raise GroundlingError(f"{folder} was made by another command: {before}. Choose another --out, or delete it")
        return
    examples = data.split("train")
    if bench.limit:
        examples = replace(examples, examples=examples.examples[: bench.limit])
    start = bench.folder(job.start, seed) if job.start else None
    recipe = recipe_class(job.recipe)(**bench.settings(job, seed))
    train(recipe, examples, data.split("val"), store, folder, start=start, seed=seed, device=_device(bench))
    with saved(path) as file:
        file.write(f"{command}\n".encode())


def _device(bench: Bench) -> torch.device:
    return torch.device(bench.device or ("cuda" if torch.cuda.is_available() else "cpu"))


# ---------------------------------------------------------------- scores


def _scores(
    folder: Path, bench: Bench, table: Table, data: Dataset, evaluator: CaptionEvaluator, store: Store
) -> list[Score]:
    """The scores of a run on the split of the bench, from its file where this version of the evaluator wrote one."""
    path = folder / f"scores-{bench.split}.json"
    if path.exists():
        before = _read(path)
        if all(score.signature.endswith(f"|v:{__version__}") for score in before):
            return before
        logger.info("%s is of another version: scored again", path)
    captioner = inference.load(folder, str(_device(bench)))
    scores = list(_judged(captioner, bench.split, data, evaluator, store, table.beam))
    if table.self_retrieval and "captioner" in captioner.model.recipe.saved_modules:
        scores += _self_retrieval(captioner, evaluator, store)
    with saved(path) as file:
        file.write(json.dumps([asdict(score) for score in scores], indent=1).encode())
    return scores


def _read(path: Path) -> list[Score]:
    try:
        return [Score(**score) for score in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} does not hold scores: {error}; delete it to score the run again") from error


def _judged(
    captioner: inference.GroundedCaptioner,
    split: str,
    data: Dataset,
    evaluator: CaptionEvaluator,
    store: Store,
    beam: int,
) -> Iterator[Score]:
    """Attention accuracy; captions and links of a captioner; phrases that a matcher or grounder finds."""
    model, device = captioner.model, captioner.device
    if evaluator.links:
        found = attention_accuracy(model, data, store, split, device=device)
        yield from (replace(statistics.score(), name="attention") for statistics in found.statistics().values())
    if "captioner" in model.recipe.saved_modules:
        ids = [example.id for example in evaluator.examples]
        said = list(captioner.caption(ids, inference.BeamSearch(beam), regions=store))
        yield from evaluator(said, METRICS).scores
    elif not isinstance(model.parts.matcher, Grounder):
        yield from (one.score() for one in both_ways(model, data.split(split), store, device, split))
    elif evaluator.links:
        for truth, one in localised(PhraseGrounder(model, None, device), data.split(split), store).items():
            yield from (replace(s.score(), name=f"{s.name} {truth}") for s in one.statistics().values())


def both_ways(
    model: Model, examples: Dataset, store: Store, device: torch.device, split: str = "", *, quiet: bool = True
) -> list[Statistics]:
    """R@k of a matcher, with all captions of the examples."""
    batches = Loader(
        examples,
        store,
        model.vocab,
        batch_size=IMAGES,
        length=model.recipe.length,
        captions_per_image=max(len(example.captions) for example in examples),
        regions=model.recipe.regions_per_image,
    )
    return retrieve(model.parts.matcher, batches(0), device, split, quiet=quiet)


def _self_retrieval(captioner: inference.GroundedCaptioner, evaluator: CaptionEvaluator, store: Store) -> list[Score]:
    """How often a caption finds its own image again, by the captioner's log p of all images."""
    ids = [example.id for example in evaluator.examples]
    gallery = Gallery.of(captioner.model, store, ids, captioner.device)
    return [one.score() for one in self_retrieval(gallery.scores(), ids, [k for k in RANKS if k < len(ids)])]
