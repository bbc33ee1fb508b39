"""All that labelling asks of a model, in one place: which region each phrase is at, and where the regions come from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.inference.grounder import PhraseGrounder, load_grounder
from groundling.inference.loading import GROUNDER, model_folder
from groundling.regions.fingerprints import require
from groundling.regions.fingerprints import to_json as fingerprint_json
from groundling.regions.store import Store
from groundling.text.noun_phrases import joined
from groundling.types import Caption, Span

if TYPE_CHECKING:
    from PIL import Image

    from groundling.tensors import Regions

Array = NDArray[np.float64]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Ranked:
    """P phrases in one image of R regions."""

    boxes: Array  # (R, 4), xyxy in pixels of `size`
    similarity: Array  # (P, R), −1 to 1
    overlap: Array  # (P, R), how likely each region is right if the phrase is in the image, 0 to 1
    evidence: tuple[float | None, ...]  # P, probability that the phrase is in the image
    size: tuple[int, int]
    classes: NDArray[np.int64]  # (R,), the detector's likeliest class of each region, −1 where unknown
    class_scores: Array  # (R,), its probability


class Grounder:
    """A phrase grounder as labelling sees it. `digest` names its weights."""

    def __init__(self, model: PhraseGrounder, folder: Path) -> None:
        self.model, self.folder = model, folder
        self.digest = _digest(folder)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of the detector that made the regions."""
        return tuple(self.model.model.fingerprint.labels)

    @property
    def about(self) -> dict[str, Any]:
        """What the numbers depend on, as JSON."""
        made = fingerprint_json(self.model.model.fingerprint)
        text = repr(sorted(made.items())).encode()
        return {"grounder": self.digest, "regions": hashlib.sha256(text).hexdigest()[:16]}

    def regions(self, image: Image.Image) -> Regions:
        return self.model.regions(image)

    def store(self, path: str) -> Store:
        """A region store that this model can read; RegionMismatch where it cannot."""
        store = Store.open(path)
        require(store.fingerprint, self.model.model.fingerprint)
        return store

    def rank(self, regions: Regions, phrases: Sequence[Words]) -> Ranked:
        """Phrases as words, in one image (B = 1) that has regions."""
        if not regions.valid.any():
            raise DataError("this image has no regions: there is nothing to choose from")
        found = self.model.rank(regions, phrases)
        seen = regions.first(found.similarity.shape[1])
        real = seen.valid[0].numpy()
        classes, scores = _classes(seen)
        width, height = (round(side) for side in seen.size[0].tolist())
        return Ranked(
            seen.boxes[0].double().numpy()[real],
            found.similarity.double().cpu().numpy()[:, real],
            found.overlap.double().cpu().numpy()[:, real].clip(0, 1),
            tuple(self.model.evidence(found.similarity)),
            (width, height),
            classes[real],
            scores[real],
        )

    def embed_phrases(self, phrases: Sequence[Words]) -> Array:
        """(P, H), of unit length: where phrases are in the space that they share with regions."""
        import torch

        with torch.inference_mode():
            ids = self.model._ids(phrases)
            return np.asarray(self.model.matcher.read(ids).double().cpu().numpy())

    def embed_regions(self, regions: Regions) -> tuple[Array, Array]:
        """(R, 4) boxes and (R, H) vectors of unit length, of one image (B = 1)."""
        import torch

        seen = regions.first(self.model.model.recipe.regions_per_image)
        real = seen.valid[0].numpy()
        with torch.inference_mode():
            vectors = self.model.matcher.see(seen.to(self.model.device))[0].double().cpu().numpy()
        return seen.boxes[0].double().numpy()[real], vectors[real]


def load(path: str = "", device: str = "cpu") -> Grounder:
    """The grounder of a folder, or the one that comes with the package."""
    folder = model_folder(path, GROUNDER)
    return Grounder(load_grounder(folder, device), folder)


def phrase_spans(caption: Caption) -> list[Span]:
    """The noun phrases of an annotated caption, as spans of tokens; two with "of" between them are one."""
    return joined(caption)


def _classes(regions: Regions) -> tuple[NDArray[np.int64], Array]:
    labels, scores = regions.labels[0].numpy(), regions.scores[0].double().numpy()
    if not labels.shape[1]:
        return np.full(len(labels), -1), np.zeros(len(labels))
    return labels[:, 0], scores[:, 0]


def _digest(folder: Path) -> str:
    """The first 16 digits of the SHA-256 of the model's files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("model.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
