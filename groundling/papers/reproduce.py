"""A table of a paper on one's own data: every row trained, captioned and scored; what is done is not done again.

A run's folder gets `command.txt` when it is trained to the end, and for each split that it was scored on
`scores-SPLIT.json` and `resampled-SPLIT.npz`, the scores of bootstrap samples of the images, which are the same samples
for all runs: `papers.summary` compares rows by them. Another version of the package writes both anew. Training holds
out val, whatever is scored: the same runs can be scored on test later.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
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
from groundling.inference.loading import load_model
from groundling.metrics.diversity import self_retrieval
from groundling.metrics.evaluation import Evaluation
from groundling.metrics.jars import jar_folder
from groundling.metrics.significance import resample
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.models.grounder import Grounder
from groundling.papers.tables import Job, Row, Table, Value
from groundling.recipes import Model, ModelRecipe, recipe_class
from groundling.recipes._matching import retrieve
from groundling.regions.store import Store
from groundling.training.run import train
from groundling.types import Score

logger = logging.getLogger(__name__)

COMMAND = "command.txt"
METRICS = ("bleu", "rouge", "cider-d", "meteor")
RANKS = (1, 5, 10, 50, 500)  # of self-retrieval, as far as there are images
GALLERY = 5000  # images of self-retrieval, as in Dai and Lin, NIPS 2017; the time grows with the square
IMAGES = 64  # read from the store at once
SAMPLES = 20_000  # of the bootstrap: p can be as low as 1 / 20,001; with few seeds that is of images, not of training


@dataclass(frozen=True)
class Scored:
    """A run that was scored: its scores, and most of them on bootstrap samples of the images."""

    scores: list[Score]
    resampled: Mapping[str, Array]  # by name of the score, (samples,)

    @property
    def values(self) -> dict[str, float]:
        return {score.name: score.value for score in self.scores}


@dataclass(frozen=True)
class Bench:
    """Where rows are tried: data, regions, folder of the runs, and config that all recipes with such fields get.

    `config` are by name, or by recipe and name ("scst.epochs"), which counts more; those of a row count most, its
    defaults least.
    """

    data: Path
    regions: Path
    out: Path
    config: Mapping[str, Value]
    split: str = "val"  # that is scored
    limit: int = 0  # of the training images; 0: all
    device: str = ""  # empty: cuda where there is one
    gallery: int = GALLERY  # images, the first of the split, among which captions look for their own

    def folder(self, name: str, seed: int) -> Path:
        return self.out / f"{name}-{seed}"

    def settings(self, job: Job, seed: int) -> dict[str, Value]:
        """The config of a job, other jobs as folders."""
        known = recipe_class(job.recipe)().settings()
        common = {name: value for name, value in self.config.items() if name in known}
        own = {k.rpartition(".")[2]: v for k, v in self.config.items() if k.rpartition(".")[0] == job.recipe}

        def place(value: Value) -> Value:
            return str(self.folder(value[1:], seed)) if isinstance(value, str) and value.startswith("@") else value

        chosen = dict(job.defaults) | common | own | dict(job.config)
        return {name: place(value) for name, value in chosen.items()}

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


@dataclass(frozen=True)
class Material:
    """What a bench names, read once for all its tables."""

    data: Dataset
    evaluator: CaptionEvaluator
    store: Store

    @staticmethod
    def of(bench: Bench) -> Material:
        return Material(load(bench.data), CaptionEvaluator.of(bench.data, bench.split), Store.open(bench.regions))

    def described(self, bench: Bench) -> dict[str, Any]:
        """Plain JSON: how many images are trained on, held out to choose epochs, and scored; whose regions they are."""
        train, made_by = len(self.data.split("train")), self.store.fingerprint
        parameters = [f"{name}={value}" for name, value in made_by.parameters.items()]
        return {
            "train": min(train, bench.limit) if bench.limit else train,
            "held out": len(self.data.split("val")),
            "scored": len(self.evaluator.examples),
            "regions": ", ".join([f"{made_by.name} {made_by.version}", *parameters]),
        }


def reproduce(
    table: Table, rows: Sequence[Row], bench: Bench, seeds: Sequence[int], material: Material
) -> dict[str, list[Scored]]:
    """The scores of each row, by its job: one of each seed. Trains and scores only what is not there yet."""
    data, evaluator, store = material.data, material.evaluator, material.store
    done: dict[str, list[Scored]] = {row.job: [] for row in rows}
    jobs = table.order(rows)
    if not evaluator.links:
        logger.info("%s has no boxes of phrases: the columns that need them stay empty (–)", bench.data)
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
    kind = recipe_class(job.recipe)
    if not issubclass(kind, ModelRecipe) or "captioner" in kind.saved_modules:  # others go on with a captioner
        jar_folder("meteor")  # its captions are scored at the end: what that needs is told before
    examples = data.split("train")
    if bench.limit:
        examples = replace(examples, examples=examples.examples[: bench.limit])
    start = bench.folder(job.start, seed) if job.start else None
    recipe = kind.of(**bench.settings(job, seed))
    train(recipe, examples, data.split("val"), store, folder, start=start, seed=seed, device=_device(bench))
    with saved(path) as file:
        file.write(f"{command}\n".encode())


def _device(bench: Bench) -> torch.device:
    return torch.device(bench.device or ("cuda" if torch.cuda.is_available() else "cpu"))


# ---------------------------------------------------------------- scores


def _scores(
    folder: Path, bench: Bench, table: Table, data: Dataset, evaluator: CaptionEvaluator, store: Store
) -> Scored:
    """The scores of a run on the split of the bench, from its files where this version of the evaluator wrote them."""
    if before := scored(folder, bench.split):
        if all(score.signature.endswith(f"|v:{__version__}") for score in before.scores):
            return before
        logger.info("%s: its scores are of another version, and are made again", folder)
    device = _device(bench)
    model = load_model(folder, device)
    all_scores = list(_evaluated(model, device, bench.split, data, evaluator, store, table.beam))
    if table.self_retrieval and "captioner" in model.recipe.saved_modules:
        all_scores += _self_retrieval(model, device, evaluator, store, bench.gallery)
    statistics = [one for one in all_scores if isinstance(one, Statistics)]
    made = Scored(
        [one.score() if isinstance(one, Statistics) else one for one in all_scores],
        {one.name: values for one, values in zip(statistics, resample(statistics, SAMPLES), strict=True)},
    )
    with saved(folder / f"resampled-{bench.split}.npz") as file:
        arrays: dict[str, Any] = {name: values.astype(np.float32) for name, values in made.resampled.items()}
        np.savez(file, **arrays)
    with saved(folder / f"scores-{bench.split}.json") as file:
        file.write(json.dumps([asdict(score) for score in made.scores], indent=1).encode())
    return made


def scored(folder: Path, split: str) -> Scored | None:
    """What the folder of a run tells of a split; None where it was not scored."""
    path, samples = folder / f"scores-{split}.json", folder / f"resampled-{split}.npz"
    if not path.exists() or not samples.exists():
        return None
    try:
        with samples.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            resampled = {name: arrays[name].astype(float) for name in arrays.files}
        return Scored([Score(**score) for score in json.loads(path.read_bytes())], resampled)
    except (OSError, ValueError, TypeError, EOFError, BadZipFile) as error:
        raise DataError(f"{path} does not hold scores: {error}; delete it to score the run again") from error


def _evaluated(
    model: Model,
    device: torch.device,
    split: str,
    data: Dataset,
    evaluator: CaptionEvaluator,
    store: Store,
    beam: int,
) -> Iterator[Statistics | Score]:
    """Attention accuracy; captions and links of a captioner; phrases that a matcher or grounder finds."""
    if evaluator.links:
        for localizer in (False, True) if hasattr(model.parts, "localizer") else (False,):
            accuracy = attention_accuracy(model, data, store, split, device=device, localizer=localizer)
            name = "attention localizer" if localizer else "attention"
            yield from (replace(statistics, name=name) for statistics in accuracy.statistics().values())
    if "captioner" in model.recipe.saved_modules:
        ids = [example.id for example in evaluator.examples]
        captioner = inference.GroundedCaptioner(model, device)
        decoding = inference.BeamSearch(beam, length_penalty=0, repeat_nouns=True, evidence_weight=0)
        captions = list(captioner.caption(ids, decoding, regions=store))
        evaluation = evaluator(captions, METRICS)
        yield from evaluation.statistics
        yield from evaluation.diversity
        yield from _figures(evaluation)
    elif not isinstance(model.parts.matcher, Grounder):
        yield from both_ways(model, data.split(split), store, device, split)
    elif evaluator.links:
        for argmax in (False, True):
            grounder = PhraseGrounder(model, None, device)
            grounder.joints = False  # none of the papers has them
            each = localised(grounder, data.split(split), store, argmax=argmax)
            for truth, one in each.items():
                end = f"{truth} argmax" if argmax else truth
                yield from (replace(s, name=f"{s.name} {end}") for s in one.statistics().values())


def _figures(evaluation: Evaluation) -> Iterator[Score]:
    """Kinds of wrong boxes, the upper bound, and F1 of classes by how frequent they are in training."""
    if evaluation.errors is None:
        return
    yield from evaluation.errors.figures()
    n, fields = len(evaluation.errors.grounding.items), evaluation.errors.grounding.fields
    for number, group in enumerate(evaluation.by_frequency or (), start=1):
        name = f"f1_all frequency {number}"
        yield Score(name, group["f1_all"], n, signature(name, **fields, classes=len(group["classes"]), n=n))


def both_ways(
    model: Model, examples: Dataset, store: Store, device: torch.device, split: str = "", *, quiet: bool = True
) -> list[Statistics]:
    """R@k of a matcher, with all captions of the examples."""
    batches = Loader(
        examples,
        store,
        model.vocab,
        batch_size=IMAGES,
        length=model.recipe.data.length,
        captions_per_image=max(len(example.captions) for example in examples),
        regions=model.recipe.data.regions_per_image,
    )
    return retrieve(model.parts.matcher, batches(0), device, split, quiet=quiet)


def _self_retrieval(
    model: Model, device: torch.device, evaluator: CaptionEvaluator, store: Store, images: int
) -> list[Statistics]:
    """How often a caption finds its own image again, by the captioner's log p of all images."""
    ids = [example.id for example in evaluator.examples][:images]
    gallery = Gallery.of(model, store, ids, device)
    return list(self_retrieval(gallery.scores(), ids, [k for k in RANKS if k < len(ids)]))
