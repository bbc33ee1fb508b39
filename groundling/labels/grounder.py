"""All that labelling asks of a model, in one place: which box each phrase is at, and where the regions come from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.errors import DataError
from groundling.inference.grounder import PhraseGrounder, load_grounder
from groundling.inference.loading import GROUNDER, model_folder
from groundling.inference.phrases import Located
from groundling.regions.fingerprints import require
from groundling.regions.fingerprints import to_json as fingerprint_json
from groundling.regions.store import Store

if TYPE_CHECKING:
    from PIL import Image

    from groundling.tensors import Regions

Array = NDArray[np.float64]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Ranked(Located):
    """P phrases among the R boxes of one image: its regions, all of them real, then parts of bodies, each once.

    A part is as similar to a phrase as the region that overlaps it most; it overlaps 0 where a phrase does not name it.
    """

    size: tuple[int, int]  # of the image, in pixels
    labels: NDArray[np.int64]  # (R, L), the labels of each box, the likeliest class first, −1 where unknown
    label_scores: Array  # (R, L), their probabilities, 0 of parts
    class_names: tuple[str, ...] = ()  # the names of labels


class Grounder:
    """A phrase grounder as labelling sees it. `digest` names its weights."""

    def __init__(self, model: PhraseGrounder, folder: Path) -> None:
        self.model, self.folder = model, folder
        self.digest = digest_of(folder)

    @property
    def about(self) -> dict[str, Any]:
        """What the numbers depend on, as JSON."""
        made = fingerprint_json(self.model.model.fingerprint)
        text = repr(sorted(made.items())).encode()
        regions = hashlib.sha256(text).hexdigest()[:16]
        return {"grounder": self.digest, "regions": regions, "joints": self.model.joints}

    def regions(self, image: Image.Image) -> Regions:
        return self.model.regions(image)

    def store(self, path: str) -> Store:
        """A region store that this model can read; RegionMismatch where it cannot."""
        store = Store.open(path)
        require(store.fingerprint, self.model.model.fingerprint)
        return store

    def rank(self, regions: Regions, phrases: Sequence[Words], nouns: Sequence[str]) -> Ranked:
        """Phrases as words, and their heads, in one image (B = 1) that has regions."""
        if not regions.valid.any():
            raise DataError("this image has no regions: there is nothing to choose from")
        found = self.model.rank(regions, phrases, nouns=nouns, groups=False)  # a label is of each thing
        boxes, similarity, overlap = (x.cpu().double().numpy() for x in (found.boxes, found.similarity, found.overlap))
        count = similarity.shape[1]
        seen = regions.first(count)
        real = np.flatnonzero(seen.valid[0].numpy())
        parts, overlap_of_parts = _each_once(boxes[count:], overlap[:, count:])
        nearest = real[iou_of_arrays(parts, boxes[real]).argmax(1)]
        width, height = (round(side) for side in seen.size[0].tolist())
        beyond = ((0, len(parts)), (0, 0))
        return Ranked(
            np.concatenate([boxes[real], parts]),
            similarity[:, [*real, *nearest]],
            np.concatenate([overlap[:, real], overlap_of_parts], 1).clip(0, 1),
            tuple(self.model.evidence(nouns, found.similarity, regions.whole)),
            (width, height),
            np.pad(seen.labels[0].numpy()[real], beyond, constant_values=-1),
            np.pad(seen.scores[0].double().numpy()[real], beyond),
            tuple(self.model.model.fingerprint.labels),
        )

    def embed_phrases(self, phrases: Sequence[Words]) -> Array:
        """(P, H), of unit length: where phrases are in the space that they share with regions."""
        return np.asarray(self.model.embed(phrases).cpu().double().numpy())

    def embed_regions(self, regions: Regions) -> tuple[Array, Array]:
        """(R, 4) boxes and (R, H) vectors of unit length, of one image (B = 1)."""
        features = self.model.features(regions)
        real = features.valid[0].cpu().numpy()
        boxes = regions.first(len(real)).boxes[0].double().numpy()
        return boxes[real], features.vectors[0].cpu().double().numpy()[real]


def _each_once(boxes: Array, overlap: Array) -> tuple[Array, Array]:
    """Parts of bodies, (E, 4), and how P phrases overlap with them, (P, E): those that several phrases name once, and
    none that is seen by less than a pixel, beyond the edge of the image."""
    inside = (boxes[:, 2:] - boxes[:, :2] >= 1).all(1)
    parts, which = np.unique(boxes[inside], axis=0, return_inverse=True)
    shared = np.zeros((len(parts), len(overlap)))
    np.maximum.at(shared, which.ravel(), overlap[:, inside].T)
    return parts, shared.T


def load(path: str = "", device: str = "cpu", joints: bool = True) -> Grounder:
    """The grounder of a folder, or the one that comes with the package."""
    folder = model_folder(path, GROUNDER)
    return Grounder(load_grounder(folder, device, joints=joints), folder)


def digest_of(folder: Path) -> str:
    """The first 16 digits of the SHA-256 of the model's files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("model.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
