"""The class of each region: as a captioner that knows classes sees it, or as the detector named it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.errors import GroundlingError
from groundling.models.layers import GroundingAware
from groundling.recipes import Model, recipe_name
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.text.classes import Classes
from groundling.types import Example, Fingerprint

Namer = Callable[[Regions], list[list[str]]]  # B images -> the likeliest class of each of R regions; "": none
Named = tuple[NDArray[np.float64], list[str], NDArray[np.intp]]  # boxes (R, 4), classes, frames


def by_model(model: Model) -> Namer:
    """The likeliest class by softmax(W_cᵀ f) of the grounding-aware encoder."""
    encoder = getattr(model.parts.captioner, "encoder", None) if "captioner" in model.recipe.saved_modules else None
    if not isinstance(encoder, GroundingAware) or not model.groundable.names:
        raise GroundlingError(
            f"{recipe_name(model.recipe)} gives regions no classes; updown_aware and what builds on it do. "
            "Without RUN, the classes of the region store's detector are scored"
        )
    names = model.groundable.names

    def name(regions: Regions) -> list[list[str]]:
        best: Tensor = encoder.classify(regions.feats).argmax(-1)
        return [[names[i] for i in row] for row in best.tolist()]

    return name


def by_detector(fingerprint: Fingerprint, classes: Classes) -> Namer:
    """The detector's likeliest label, where it is a class or a word for one: not every class is a form of itself."""
    if not fingerprint.labels:
        raise GroundlingError(f"the regions of {fingerprint.name} have no labels: name a RUN that classifies regions")
    known = {**classes.class_of, **{name: name for name in classes.names}}
    class_of = [known.get(label.lower(), "") for label in fingerprint.labels]

    def name(regions: Regions) -> list[list[str]]:
        if not regions.labels.shape[2]:
            return [[""] * regions.labels.shape[1] for _ in range(len(regions))]
        return [[class_of[i] if i >= 0 else "" for i in row] for row in regions.labels[..., 0].tolist()]

    return name


@torch.inference_mode()
def named_regions(
    name: Namer, store: Store, examples: Sequence[Example], limit: int | None, device: torch.device, batch: int = 64
) -> Iterator[tuple[str, Named]]:
    """id -> its regions in pixels of the example, with their classes; at most the first `limit` of each image."""
    for start in range(0, len(examples), batch):
        some = examples[start : start + batch]
        regions = store.batch([example.id for example in some], limit)
        labels = name(regions.to(device))
        for b, example in enumerate(some):
            own = regions.valid[b]
            boxes = regions.boxes[b][own] * (1 / regions.scale(b, example.size)).float()
            kept = [label for label, real in zip(labels[b], own.tolist(), strict=True) if real]
            yield example.id, (boxes.double().numpy(), kept, regions.frame[b][own].numpy().astype(np.intp))
