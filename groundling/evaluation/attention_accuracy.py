"""Attention accuracy: does a model attend to the right region while it reads the captions of a data set?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.data.collate import collate, encode
from groundling.data.dataset import Dataset
from groundling.errors import GroundlingError
from groundling.inference.links import boxes_of
from groundling.metrics.evaluation import ground_given
from groundling.metrics.grounding import ReferenceGrounding
from groundling.progress import track
from groundling.recipes import Model, recipe_name
from groundling.recipes.cyclical import CycleParts, Cyclical
from groundling.regions.fingerprints import require
from groundling.regions.store import Store
from groundling.tensors import Batch, Decoding, Glimpse
from groundling.text import classes
from groundling.text.classes import groundable_words
from groundling.types import Example


def attention_accuracy(
    model: Model,
    data: Dataset,
    store: Store,
    split: str | None = None,
    *,
    iou: float = 0.5,
    device: torch.device | None = None,
    batch: int = 32,
    localizer: bool = False,
) -> ReferenceGrounding:
    """Is the most attended region of each annotated word, while the model reads the captions of people, the right one?

    The accuracy is averaged over classes, by the rules of Flickr30k-Entities (images) or ActivityNet-Entities (videos,
    one region in each frame) for given sentences. Of a captioner, the attention when the word is next is taken; of one
    with several branches, the box around the regions of the branches that choose the word; of a matcher, its alignment
    of the word. `localizer`: the attention of the localizer of a `cyclical` model is taken instead. Captions are read
    to their end, however long; a word without attention is a miss. `data` must be annotated (`data.dataset.load` does
    it), since matchers may use nouns alone.
    """
    require(store.fingerprint, model.fingerprint)
    examples = labelled(data, split)
    store.require(example.id for example in examples)
    device = device or torch.device("cpu")
    model.parts.to(device).eval()
    reading = _localized if localizer else _decoding
    boxes = dict(track(_boxes(model, reading, examples, store, device, batch), "attention", len(examples)))
    fields = {"data": data.name} | ({"split": split} if split else {}) | ({"of": "localizer"} if localizer else {})
    return ground_given(boxes, examples, iou, fields)


def labelled(data: Dataset, split: str | None) -> tuple[Example, ...]:
    """The examples of a split, phrases with classes: those that the data names, else those that training makes."""
    chosen = data.split(split) if split else data
    if any(phrase.label for example in chosen for phrase in example.gold):
        return chosen.examples
    training = data.split("train") if "train" in data.splits else data
    return tuple(classes.label(chosen, groundable_words(training)))


def _decoding(model: Model, batch: Batch) -> Decoding:
    """The model's attention on given captions; of a captioner with several branches, also the regions that it
    chooses."""
    if "captioner" not in model.recipe.saved_modules:
        attn = model.parts.matcher.attention(batch)
        return Decoding(batch.targets, torch.zeros_like(attn[..., 0]), attn, batch.targets)
    captioner = model.parts.captioner
    read = captioner(captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    return replace(read, picks=_voted(read, batch.regions.frame[batch.image_of])) if len(read.branches) > 1 else read


def _localized(model: Model, batch: Batch) -> Decoding:
    """Given captions with the attention β of the localizer (Ma et al. 2020, eq. 6), asked with the true words."""
    recipe = model.recipe
    if not isinstance(recipe, Cyclical) or not hasattr(model.parts, "localizer"):
        raise GroundlingError(
            f"this model of {recipe_name(recipe)} has no localizer: `groundling train cyclical` trains and saves one"
        )
    encoded = model.parts.captioner.encode(batch.regions)[batch.image_of]
    return recipe.reconstruct(cast(CycleParts, model.parts), encoded, batch, batch.targets)


def _voted(read: Decoding, frame: Tensor) -> Tensor:
    """(N, T, R) bool: for each word the union of the choices of the branches that vote for it, as in captioning."""
    attn = torch.stack([branch.attn for branch in read.branches], 2)  # (N, T, K, R)
    words = torch.stack([branch.guess for branch in read.branches], 2)  # (N, T, K)
    n, t, _, r = attn.shape
    glimpse = Glimpse(read.attn.flatten(0, 1), attn.flatten(0, 1), words.flatten(0, 1))
    return glimpse.picks(read.tokens.flatten(), frame[:, None].expand(n, t, r).flatten(0, 1)).view(n, t, r)


def _boxes(
    model: Model,
    reading: Callable[[Model, Batch], Decoding],
    examples: Sequence[Example],
    store: Store,
    device: torch.device,
    batch: int,
) -> Iterator[tuple[str, list[NDArray[np.float64]]]]:
    """id -> for each of its captions, the boxes (words, frames, 4) of its words in pixels of the image."""
    rest = iter(examples)
    while chunk := list(islice(rest, batch)):
        captioned = [example for example in chunk if example.captions]
        if not captioned:
            continue
        longest = max(len(caption.tokens) for example in captioned for caption in example.captions)
        lines = [[encode(caption, model.vocab, longest) for caption in example.captions] for example in captioned]
        regions = store.batch([example.id for example in captioned], model.recipe.data.regions_per_image)
        read = collate(captioned, lines, regions, model.vocab).to(device)
        with torch.inference_mode():
            boxes = boxes_of(reading(model, read), read.regions[read.image_of])[0].cpu().double()  # (N, T, F, 4)
            scale = torch.stack([regions.scale(b, example.size) for b, example in enumerate(captioned)]).float()
            boxes = boxes / scale[read.image_of.cpu()][:, None, None]
        rows = iter(boxes.numpy())
        for example in captioned:
            yield example.id, [next(rows)[: len(caption.tokens)] for caption in example.captions]
