"""A trained grounder and captioner, adapted to the photos of someone else: few images, few captions.

All weights are kept and learn on; new words get rows of their own (`extend`). Nothing becomes worse on the validation
images: where training does not help, the model is left as it was. The grounder is measured by phrase accuracy where
people drew boxes, else by what captions tell (`calibration.separation`), where a gain must be larger than the standard
error; the captioner by CIDEr-D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.evaluation.phrases import localised
from groundling.files import MANIFEST, replace_files
from groundling.inference.calibration import SEPARATION, calibrate_run, keep_calibration, separation
from groundling.inference.evidence import CALIBRATION
from groundling.inference.grounder import load_grounder
from groundling.recipes import WEIGHTS, Model, ModelRecipe, TrainingContext, load, save
from groundling.regions.store import Store
from groundling.training.extend import extended
from groundling.training.run import EVALUATED, train
from groundling.training.stages import Parts
from groundling.types import Score

GROUNDER = {"lr": 2e-4, "epochs": 3}
CAPTIONER = {"lr": 1e-4, "epochs": 8, "patience": 2, "warmup_epochs": 0, "contrast": 0, "scst_epochs": 0}
THREADS = 1  # the steps are small: two threads take longer to wait for each other than they save
TRAINING = "training"  # folder of the run in that of the model


@dataclass(frozen=True)
class Change:
    """What adapting did to one score on the validation images."""

    what: str  # captioner or grounder
    before: Score
    after: Score  # of what was kept, so never less
    tried: float  # of what training gave
    new_words: int

    @property
    def helped(self) -> bool:
        return self.after.value > self.before.value


@dataclass(frozen=True)
class Photos:
    """What is learned from and measured on."""

    examples: Dataset
    held_out: Dataset
    store: Store
    seed: int = 0
    device: torch.device = torch.device("cpu")


def adapt_grounder(start: Path, photos: Photos, out: Path, **settings: Any) -> Change:
    """Adapt the grounder in `start`, calibrate it, leave it in `out`."""
    model, before = load(start), grounder_score(start, photos)
    bigger = _train(model, start, photos, out / TRAINING, GROUNDER | settings)
    after = grounder_score(out / TRAINING, photos)
    _leave(start, out, model.recipe, helped := after.value > before.value + _standard_error(before))
    if not helped and (start / CALIBRATION).exists():
        keep_calibration(out / CALIBRATION, (start / CALIBRATION).read_bytes())
    else:
        calibrate_run(out, photos.held_out, photos.store, str(photos.device))
    return Change("grounder", before, after if helped else before, after.value, len(bigger.vocab) - len(model.vocab))


def adapt_captioner(start: Path, guide: Path, photos: Photos, out: Path, **settings: Any) -> Change:
    """Adapt the captioner in `start`, whose attention the grounder in `guide` teaches where its recipe has a guide."""
    model = load(start)
    before = captioner_score(model, photos, guide)
    bigger = _train(model, start, photos, out / TRAINING, CAPTIONER | {"guide": str(guide)} | settings)
    after = load(out / TRAINING).scores[0]  # of the best epoch, by the same measure
    _leave(start, out, model.recipe, helped := after.value > before.value)
    return Change("captioner", before, after if helped else before, after.value, len(bigger.vocab) - len(model.vocab))


def grounder_score(folder: Path, photos: Photos) -> Score:
    """Phrase accuracy where the validation images have boxes of phrases, else how well phrases are told apart."""
    grounder = load_grounder(folder, str(photos.device))
    if any(phrase.boxes for example in photos.held_out for phrase in example.gold):
        found = localised(grounder, photos.held_out, photos.store)["any"]
        return next(one.score() for one in found.statistics().values())
    return separation(grounder, photos.held_out, photos.store)


def _standard_error(score: Score) -> float:
    """By how much the grounder must become better: where it is measured by boxes, at all.

    What captions tell is a measure of it at second hand, so there by more than a standard error, √(p (1 − p) / n).
    """
    return math.sqrt(max(0.0, score.value * (1 - score.value)) / score.n) if score.name == SEPARATION else 0.0


def captioner_score(model: Model, photos: Photos, guide: Path) -> Score:
    """CIDEr-D of a model that is not trained further, as it is measured after each epoch."""
    recipe = _with(model.recipe, {"guide": str(guide)})
    context = TrainingContext(
        photos.examples,
        model.vocab,
        model.layout,
        model.fingerprint,
        model.groundable,
        model.recipe.data.length,
        photos.held_out[0].split,
    )
    batches = Loader(
        photos.held_out,
        photos.store,
        model.vocab,
        batch_size=EVALUATED,
        length=model.recipe.data.length,
        captions_per_image=1,
        regions=model.recipe.data.regions_per_image,
    )
    parts = Parts(**dict(model.parts.named_children())).to(photos.device)
    return recipe.scores(parts, batches(0), context, photos.device)[0]


def _train(model: Model, start: Path, photos: Photos, out: Path, settings: Mapping[str, Any]) -> Model:
    captions = (caption for example in photos.examples for caption in example.captions)
    bigger = extended(model, captions)
    most = max(len(example.captions) for example in photos.examples)
    recipe = _with(bigger.recipe, settings)
    recipe = _with(recipe, {"captions_per_image": min(recipe.batches.captions_per_image, most)})
    bigger = replace(bigger, recipe=recipe, scores=())
    train(
        recipe,
        photos.examples,
        photos.held_out,
        photos.store,
        out,
        start=start,
        model=bigger,
        seed=photos.seed,
        device=photos.device,
    )
    return bigger


def _leave(start: Path, out: Path, recipe: Any, helped: bool) -> None:
    """In `out`, the model that training gave, or, where it did not help, the one that it began with."""
    if helped:
        adapted = load(out / TRAINING)
        named = {"guide": recipe.guide} if hasattr(recipe, "guide") else {}  # not the folder of this machine
        save(out, replace(adapted, recipe=_with(adapted.recipe, named)))
        return
    beside = (file.name for file in start.glob("*.json") if file.name != MANIFEST)  # what it is, its calibration
    replace_files(out, {name: (start / name).read_bytes() for name in (WEIGHTS, *beside)})


def _with(recipe: ModelRecipe, settings: Mapping[str, Any]) -> ModelRecipe:
    """The recipe with those of the settings that it has."""
    known = recipe.settings()
    return recipe.changed(**{name: value for name, value in settings.items() if name in known})
