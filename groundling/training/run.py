"""A recipe, a data set and its regions in; a run folder out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.recipes import (
    OLD_RECIPES,
    WEIGHTS,
    Model,
    Recipe,
    TrainingContext,
    builds_model,
    load,
    recipe_name,
    renamed,
    save,
)
from groundling.regions import fingerprints
from groundling.regions.store import Store
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import State, read
from groundling.training.consensus import by_agreement
from groundling.training.determinism import seed_everything
from groundling.training.extend import extended
from groundling.training.fit import Run, fit
from groundling.training.parallel import rank, world
from groundling.training.precision import bfloat16_products
from groundling.training.stages import Parts
from groundling.types import Example, Score

logger = logging.getLogger(__name__)

EVALUATED = 64  # images captioned at once after an epoch


def train(
    recipe: Recipe,
    examples: Dataset,
    held_out: Dataset,
    store: Store,
    out: Path,
    *,
    start: Path | None = None,
    new_words: bool = False,
    model: Model | None = None,
    seed: int = 0,
    device: torch.device | None = None,
    save_seconds: float = 300.0,
    bfloat16: bool = False,
) -> State:
    """Train `recipe` on `examples`, scoring it on `held_out` after each epoch; a run in `out` is resumed.

    `start`: the run of a trained model to begin with, and `new_words`: also with the words of `examples` that it lacks,
    see `begin`; `model`: this one as it is, made of that run. The best model is left in `out` for `recipes.load`.
    `bfloat16`: of products of matrices, see `precision.py`.
    Inside `training.parallel.processes` all of them take part.
    """
    device = device or torch.device("cpu")
    seed_everything(seed)
    model = begin(recipe, examples, store, start, new_words) if model is None else model
    trained = None if builds_model(recipe) else model
    context = TrainingContext(
        examples,
        model.vocab,
        model.layout,
        model.fingerprint,
        model.groundable,
        model.recipe.data.length,
        held_out[0].split,
        trained,
    )
    taught = Parts(**dict(model.parts.named_children()), **recipe.teachers(context))
    loader = Loader(
        examples,
        store,
        model.vocab,
        batch_size=recipe.batches.batch,
        length=model.recipe.data.length,
        captions_per_image=recipe.batches.captions_per_image,
        ranks=by_agreement(examples) if recipe.batches.consensus else None,
        regions=model.recipe.data.regions_per_image,
        seed=seed,
        uses_boxes=recipe.uses_boxes,
        merge_boxes=recipe.boxes.merge_boxes,
        rank=rank(),
        world=world(),
    )
    validation = Loader(
        held_out,
        store,
        model.vocab,
        batch_size=EVALUATED,
        length=model.recipe.data.length,
        captions_per_image=1,
        regions=model.recipe.data.regions_per_image,
    )

    def evaluate() -> list[Score]:
        return recipe.scores(taught, validation(0), context, device)

    def keep(scores: Sequence[Score]) -> None:
        save(out, replace(model, scores=tuple(scores)))

    def recall() -> None:
        model.parts.load_state_dict(read(out / WEIGHTS)[0], strict=False)

    plain = settings(recipe, model, examples, held_out, seed)
    if frozen := _frozen(model, taught, start):
        plain["begins with"] = frozen
    if bfloat16:
        plain["products"] = "bfloat16"
    run = Run(out, plain, device, seed, save_seconds, _renamed)
    with bfloat16_products(bfloat16):
        return fit(recipe.stages(context), taught, loader, run, evaluate=evaluate, keep=keep, recall=recall)


def begin(recipe: Recipe, examples: Dataset, store: Store, start: Path | None, new_words: bool = False) -> Model:
    """The model before its first step: fresh weights, or as far as they fit those of the run `start`.

    A fine-tuning recipe takes over the model, a captioner; any other recipe its words, the classes of words that get a
    box, and the parts whose names and shapes are the same. With `new_words` every weight is kept, and the words of
    `examples` that occur `min_count` times or more are learned too.
    """
    if new_words and (start is None or not builds_model(recipe)):
        raise GroundlingError("--new-words goes with --start and a recipe that builds a model, as updown does")
    origin = None if start is None else load(start)
    if origin is not None:
        fingerprints.require(store.fingerprint, origin.fingerprint)
    if not builds_model(recipe):
        if origin is None:
            raise GroundlingError(f"{recipe_name(recipe)} goes on with a trained model: name its run with --start")
        _ = origin.captioner  # or it says that it makes no captions
        return replace(origin, fine_tuning=(*origin.fine_tuning, recipe), scores=())
    captions = [caption for e in examples for caption in e.captions]
    if new_words and origin is not None:
        origin = extended(origin, captions, recipe.data.min_count)
    vocab = Vocabulary.of(captions, recipe.data.min_count) if origin is None else origin.vocab
    classes = origin.groundable if origin is not None and origin.groundable.names else groundable_words(examples)
    parts = recipe.parts(vocab, store.layout, classes)
    if origin is not None:
        _take_over(parts, origin.parts, f"{start}")
    return Model(recipe, parts, vocab, store.fingerprint, store.layout, classes)


def _take_over(parts: Parts, origin: Parts, start: str) -> None:
    """Copy into `parts` the weights of `origin` that fit."""
    fresh = parts.state_dict()
    taken = {k: v for k, v in origin.state_dict().items() if k in fresh and v.shape == fresh[k].shape}
    if not taken:
        raise GroundlingError(f"nothing of {start} fits this recipe: no part has the same name and shapes")
    parts.load_state_dict(taken, strict=False)
    left = sorted(fresh.keys() - taken.keys())
    new = f"; new: {', '.join(left)}" if left else ""
    logger.info("%d of %d tensors come from %s%s", len(taken), len(fresh), start, new)


def settings(recipe: Recipe, model: Model, examples: Dataset, held_out: Dataset, seed: int) -> dict[str, Any]:
    """All that decides the weights, as plain JSON; data, classes and regions by their hashes.

    Boxes that people drew count only for a recipe that sees them.
    """
    source, groundable = model.fingerprint, model.groundable
    truth = [e.gold for e in examples] if recipe.uses_boxes else []
    return {
        "recipe": recipe_name(recipe),
        **recipe.settings(),
        "seed": seed,
        "training data": f"{len(examples)} images, {_hash(([_captions_of(e) for e in examples], truth))}",
        "object classes": f"{len(groundable.names)}, {_hash((groundable.names, sorted(groundable.class_of.items())))}",
        "validation data": f"{len(held_out)} images, {_hash([_captions_of(e) for e in held_out])}",
        "region source": f"{source.name} {source.version}, {_hash(fingerprints.to_json(source))}",
    }


def _renamed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run of version 0.1, by the names of this version."""
    name = settings.get("recipe", "")
    return (
        {"keep_last": False, "clip_each": 0.0, "average": 0.0, "consensus": False}
        | renamed(name, settings)
        | {"recipe": OLD_RECIPES.get(name, name)}
    )


def _frozen(model: Model, taught: Parts, start: Path | None) -> str:
    """Hash of the weights that come from other runs; empty where none do."""
    own = {name for name, _ in model.parts.named_children()} if start is None else set()
    state = {name: value for name, value in taught.state_dict().items() if name.partition(".")[0] not in own}
    seen = blake2b(repr([(name, value.shape) for name, value in state.items()]).encode(), digest_size=6)
    for value in state.values():
        seen.update(value.contiguous().numpy())
    return seen.hexdigest() if state else ""


def _captions_of(example: Example) -> tuple[str, list[tuple[str, ...]]]:
    return example.id, [caption.tokens for caption in example.captions]


def _hash(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=6).hexdigest()
