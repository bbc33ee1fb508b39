"""A recipe, a data set and its regions in; a run folder out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.recipes import Model, Recipe, recipe_name, save
from groundling.regions import fingerprints
from groundling.regions.store import Store
from groundling.text import classes
from groundling.text.vocab import Vocabulary
from groundling.train.checkpoint import State
from groundling.train.distributed import rank, world
from groundling.train.fit import Run, fit
from groundling.train.repeat import seed_everything
from groundling.train.validate import caption_scores
from groundling.types import Example, Score

EVALUATED = 64  # images captioned at once after an epoch


def train(
    recipe: Recipe,
    examples: Dataset,
    held_out: Dataset,
    store: Store,
    out: Path,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    save_seconds: float = 300.0,
) -> State:
    """Train `recipe` on `examples`, scoring captions of `held_out` after each epoch; a run in `out` is resumed.

    The best model is left in `out` for `recipes.load`. Inside `train.distributed.processes` all of them take part.
    """
    device = device or torch.device("cpu")
    vocab = Vocabulary.build((caption.tokens for e in examples for caption in e.captions), recipe.min_count)
    seed_everything(seed)
    model = Model(
        recipe,
        recipe.parts(vocab, store.layout, groundable := groundable_words(examples)),
        vocab,
        store.fingerprint,
        store.layout,
        groundable,
    )
    loader = Loader(
        examples,
        store,
        vocab,
        batch_size=recipe.batch,
        length=recipe.length,
        captions_per_image=recipe.captions_per_image,
        regions=recipe.regions_per_image,
        seed=seed,
        uses_boxes=recipe.uses_boxes,
        rank=rank(),
        world=world(),
    )
    judged = Loader(
        held_out,
        store,
        vocab,
        batch_size=EVALUATED,
        length=recipe.length,
        captions_per_image=1,
        regions=recipe.regions_per_image,
    )

    def evaluate() -> list[Score]:
        return caption_scores(model.captioner, judged(0), recipe.length, device, held_out[0].split)

    def keep(scores: Sequence[Score]) -> None:
        save(out, replace(model, scores=tuple(scores)))

    run = Run(out, settings(model, examples, held_out, seed), device, seed, save_seconds)
    return fit(recipe.stages(), model.parts, loader, run, evaluate=evaluate, keep=keep)


def settings(model: Model, examples: Dataset, held_out: Dataset, seed: int) -> dict[str, Any]:
    """All that decides the weights, as plain JSON; data, classes and regions by their hashes.

    Boxes that people drew count only for a recipe that sees them.
    """
    source, found = model.fingerprint, model.groundable
    truth = [e.gold for e in examples] if model.recipe.uses_boxes else []
    return {
        "recipe": recipe_name(model.recipe),
        **asdict(model.recipe),
        "seed": seed,
        "training data": f"{len(examples)} images, {_hash(([_said(e) for e in examples], truth))}",
        "object classes": f"{len(found.names)}, {_hash((found.names, sorted(found.class_of.items())))}",
        "validation data": f"{len(held_out)} images, {_hash([_said(e) for e in held_out])}",
        "region source": f"{source.name} {source.version}, {_hash(fingerprints.to_json(source))}",
    }


def groundable_words(examples: Dataset) -> classes.Classes:
    """Forms of the object classes of a training split; where nobody drew boxes, of the heads of its noun phrases.

    A class is as frequent as the papers' in Flickr30k: 100 phrases in 29,000 images.
    """
    least = max(2, math.ceil(100 * len(examples) / 29_000))
    found = classes.build(examples, least)
    if found.names:
        return found
    captions = [caption for example in examples for caption in example.captions]
    heads: Counter[str] = Counter()
    for caption in captions:
        nouns = [classes.head_noun(caption, chunk) for chunk in caption.chunks]
        heads.update(caption.lemmas[noun] for noun in nouns if noun >= 0)
    names = sorted((name for name, n in heads.items() if n >= least), key=lambda name: (-heads[name], name))
    return classes.Classes(tuple(names), classes.forms(names, captions))


def _said(example: Example) -> tuple[str, list[tuple[str, ...]]]:
    return example.id, [caption.tokens for caption in example.captions]


def _hash(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=6).hexdigest()
