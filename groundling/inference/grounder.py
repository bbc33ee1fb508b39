"""Phrases of a sentence, each with its box in an image.

    import groundling

    grounder = groundling.load_grounder()  # or the folder of one that you trained
    for phrase in grounder.ground("photo.jpg", "a man in a red shirt holding a guitar"):
        print(phrase.phrase, phrase.box, phrase.evidence)

The box of a phrase is the region that most likely covers at least half of the right place: argmax_l Σ_m p_m [IoU(l, m)
> 1/2], the step being soft (`boxes.soft_iou_match`), p = softmax(s / τ). A calibrated grounder also tells the evidence:
how likely it is that the phrase is in the image at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from groundling.errors import DataError, GroundlingError
from groundling.images import opened
from groundling.inference import inputs
from groundling.inference.evidence import read_calibration
from groundling.inference.garments import PERSON
from groundling.inference.loading import GROUNDER, can_find_joints, device_of, model_folder, source_of
from groundling.inference.phrases import (
    BaseGrounder,
    Compared,
    Cues,
    GroundedPhrase,
    GroundedPhrases,
    asked,
    places,
)
from groundling.metrics.calibration import EvidenceModel
from groundling.models.grounder import Grounder
from groundling.recipes import Model, load, recipe_name
from groundling.tensors import Regions, RegionSource
from groundling.text.noun_phrases import NounPhrase
from groundling.text.vocab import Vocabulary
from groundling.types import PAD, GroundedCaption

if TYPE_CHECKING:
    from groundling.inference.inputs import Images, OneImage

WINDOW = 16  # images that are grounded together


@dataclass(frozen=True)
class Ranking:
    """What a model thinks of P phrases in one image of R regions."""

    similarity: Tensor  # (P, R), s of eq. 1
    boxes: Tensor  # (R + E, 4): the regions, then E parts of bodies (`inference.bodies`)
    overlap: Tensor  # (P, R + E), how likely each box is right, if the phrase is in the image


@dataclass(frozen=True)
class RegionFeatures:
    """f(x) of eq. 1 of all regions of B images that a grounder uses: computed once, for any number of phrases."""

    vectors: Tensor  # (B, R, H)
    valid: Tensor  # (B, R) bool
    whole: Tensor | None  # (B, G) image vectors, where the source gives them


class PhraseGrounder(BaseGrounder):
    """A trained grounder of phrases. Made by `load_grounder`.

    >>> grounder = groundling.load_grounder()
    >>> phrases = grounder.ground("photo.jpg", "a dog with a ball")
    >>> [phrase.phrase for phrase in phrases]
    ['a dog', 'a ball']
    >>> grounder.ground("photo.jpg", phrases=["dog"])[0].evidence  # doctest: +SKIP
    0.93
    """

    def __init__(self, model: Model, calibration: EvidenceModel | None, device: torch.device) -> None:
        self.model, self.calibration, self.device = model, calibration, device
        self._read_words: tuple[tuple[str, ...], Tensor] = (), torch.empty(0)  # of `word_fit`

    @property
    def vocab(self) -> Vocabulary:
        return self.model.vocab

    @cached_property
    def matcher(self) -> Grounder:
        matcher = getattr(self.model.parts, "matcher", None)
        if not isinstance(matcher, Grounder):
            name = recipe_name(self.model.recipe)
            raise GroundlingError(f"{name} grounds no phrases; train a grounder with `groundling train two_branch`")
        return matcher

    @cached_property
    def source(self) -> RegionSource:
        """What makes the regions that the model looks at."""
        return source_of(self.model.fingerprint)

    def regions(self, image: OneImage) -> Regions:
        """The regions of one image (B = 1), with its pixels."""
        item = next(inputs.items(image))
        if item.is_clip:
            raise DataError(f"{item.media} is a video: ground its frames, as `groundling ground VIDEO` does")
        if item.picture is None and not item.media:
            raise DataError(f"{item.id!r} has no picture file: give its regions")
        picture = opened(item.picture or item.media)
        return inputs.with_pixels(self.source(picture), picture)

    @overload
    def ground(  # type: ignore[overload-overlap]  # a name is one image, unless it is that of a folder
        self, images: OneImage, sentence: str = "", phrases: Sequence[str] = (), *, window: int = WINDOW
    ) -> list[GroundedPhrase]: ...

    @overload
    def ground(
        self,
        images: Iterable[OneImage],
        sentence: str | Iterable[str] = "",
        phrases: Sequence[str] = (),
        *,
        window: int = WINDOW,
    ) -> Iterator[list[GroundedPhrase]]: ...

    def ground(
        self,
        images: Images,
        sentence: str | Iterable[str] = "",
        phrases: Sequence[str] = (),
        *,
        window: int = WINDOW,
    ) -> list[GroundedPhrase] | Iterator[list[GroundedPhrase]]:
        """Find phrases in one image, or in many.

        images: one image: the path of a file, a PIL image, an array (height × width × 3, uint8, RGB), a tensor
            (3 × height × width, uint8 or from 0 to 1) or an example of a data set. Or many: a list or any iterable
            of these, or a folder. One image gives the list of its phrases.
            Many give an iterator of such lists, and no more than a window of images is in memory.
        sentence: its noun phrases are looked for. For many images, one sentence for all or an iterable with one each.
        phrases: look for these instead, in every image.
        window: how many sentences are parsed together.
        """
        if inputs.is_one(images):
            return self._of_image(images, asked([str(sentence)], phrases)[0])
        each = (item.picture or item.media for item in inputs.items(images))
        sentences = repeat(sentence) if isinstance(sentence, str) else sentence
        return self._each(zip(each, sentences, strict=not isinstance(sentence, str)), phrases, window)

    def _each(
        self, pairs: Iterable[tuple[OneImage, str]], phrases: Sequence[str], window: int
    ) -> Iterator[list[GroundedPhrase]]:
        left = iter(pairs)
        while some := list(islice(left, window)):
            wanted = asked([sentence for _, sentence in some], phrases)
            for (image, _), parts in zip(some, wanted, strict=True):
                yield self._of_image(image, parts)

    def _of_image(self, image: OneImage, wanted: Sequence[NounPhrase]) -> GroundedPhrases:
        regions = self.regions(image)
        width, height = (round(side) for side in regions.size[0].tolist())
        return GroundedPhrases(self.grounded(regions, wanted), next(inputs.items(image)).media, (width, height))

    def compare(
        self, regions: Regions, phrases: Sequence[Sequence[str]], nouns: Sequence[str], colours: Sequence[Sequence[str]]
    ) -> Compared:
        found = self.rank(regions, phrases, colours, nouns)
        whole = None if regions.whole is None else regions.whole[0].cpu().numpy()
        return Compared(found.boxes.cpu().numpy(), found.similarity.cpu().numpy(), found.overlap.cpu().numpy(), whole)

    @torch.inference_mode()
    def word_fit(self, regions: Regions, words: tuple[str, ...]) -> NDArray[np.float32]:
        if self._read_words[0] != words:
            self._read_words = words, self.embed([[word] for word in words])
        fit: NDArray[np.float32] = (
            (self.matcher.encode_regions(regions.to(self.device))[0] @ self._read_words[1].T).cpu().numpy()
        )
        return fit

    @torch.inference_mode()
    def features(self, regions: Regions) -> RegionFeatures:
        """What the model computes of the regions of B images."""
        regions = regions.of_each_frame(self.model.recipe.data.regions_per_image).to(self.device)
        return RegionFeatures(self.matcher.encode_regions(regions), regions.valid, regions.whole)

    @torch.inference_mode()
    def embed(self, phrases: Sequence[Sequence[str]]) -> Tensor:
        """(P, H), of unit length: phrases, given as words, in the space that they share with regions."""
        return self.matcher.encode_phrases(self._ids(phrases))

    @torch.inference_mode()
    def similarity(self, features: RegionFeatures, image: Tensor, phrases: Sequence[Sequence[str]]) -> Tensor:
        """(P, R): s of eq. 1 of each phrase, given as words, in its image (P,); −inf where there is no region."""
        vectors = self.embed(phrases)
        scores = torch.einsum("prh,ph->pr", features.vectors[image], vectors)
        return scores.masked_fill(~features.valid[image], -torch.inf)

    @torch.inference_mode()
    def rank(
        self,
        regions: Regions,
        phrases: Sequence[Sequence[str]],
        colours: Sequence[Sequence[str]] = (),
        nouns: Sequence[str] = (),
        *,
        groups: bool = True,
    ) -> Ranking:
        """Phrases as words, in one image (B = 1).

        `nouns`: their heads, the last words if they are not given. `colours`: words for colours that each has. Where
        the pixels are known, colours help to choose (`inference.colours`) and parts of bodies are found by joints
        (`inference.bodies`); where not, garments by the boxes of persons (`inference.garments`). `groups`: plural nouns
        are looked for in the box around their places, not in one of these.
        """
        regions = regions.of_each_frame(self.model.recipe.data.regions_per_image).to(self.device)
        vectors = self.matcher.encode_regions(regions)[0]
        scores = (self.embed(phrases) @ vectors.T).masked_fill(~regions.valid[0], -torch.inf)  # (P, R)
        heads = nouns or [phrase[-1] for phrase in phrases]
        cues = self._cues(regions, vectors)
        found = places(scores.cpu().numpy(), cues, heads, colours, groups=groups)
        boxes, overlap = (torch.from_numpy(x).to(scores) for x in found)
        return Ranking(scores, boxes, overlap)

    def evidence(
        self, nouns: Sequence[str], similarity: Tensor, whole: Tensor | None, *, in_caption: bool = False
    ) -> list[float | None]:
        """How likely each phrase is in its image; None if not calibrated. See `inference.evidence`.

        nouns: the heads of P phrases. similarity: (P, R), with the regions. whole: the image vector (1, G), or one for
        each phrase (P, G); None: by similarity alone. in_caption: phrases of captions, whose frequent nouns are right
        more often than the rare ones, not any phrases.
        """
        if self.calibration is None:
            return [None] * len(similarity)
        best = best_similarity(similarity).cpu().double().numpy()
        vector = None if whole is None else whole.cpu().numpy()
        return [*self.calibration.of_image(nouns, best, vector, in_caption=in_caption)]

    def cues(self, regions: Regions) -> Cues:
        seen = regions.of_each_frame(self.model.recipe.data.regions_per_image).to(self.device)
        return self._cues(seen, self.matcher.encode_regions(seen)[0])

    def _cues(self, regions: Regions, vectors: Tensor) -> Cues:
        """vectors: (R, H) of the regions."""
        width, height = regions.size[0].tolist()
        return Cues(
            regions.boxes[0].cpu().numpy(),
            regions.frame[0].cpu().numpy(),
            (width, height),
            regions.pictures[0] if regions.pictures else None,
            self.joints,
            (lambda: _similarity_of(vectors, regions.valid[0], self._person)) if PERSON in self.vocab else None,
        )

    def add_evidence(self, captions: Sequence[GroundedCaption], features: RegionFeatures) -> list[GroundedCaption]:
        """The same captions of B images, each link with its evidence: how likely its noun, alone, is there."""
        nouns = [(i, word) for i, caption in enumerate(captions) for word in dict.fromkeys(map(caption.word, caption))]
        known = [(i, word) for i, word in nouns if word in self.model.vocab]
        if self.calibration is None or not known:
            return list(captions)
        image = torch.tensor([i for i, _ in known], device=self.device)
        scores = self.similarity(features, image, [[word] for _, word in known])
        whole = None if features.whole is None else features.whole[image]
        likely = self.evidence([word for _, word in known], scores, whole, in_caption=True)
        evidence = dict(zip(known, likely, strict=True))
        return [
            replace(
                caption,
                links=tuple(replace(link, evidence=evidence.get((i, caption.word(link)))) for link in caption.links),
            )
            for i, caption in enumerate(captions)
        ]

    @cached_property
    def _person(self) -> Tensor:
        """(H,), of unit length: the word "person"."""
        return self.embed([[PERSON]])[0]

    def _ids(self, phrases: Sequence[Sequence[str]]) -> Tensor:
        rows = [self.word_ids(phrase) for phrase in phrases]
        longest = max(map(len, rows), default=0)
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows], device=self.device)


def _similarity_of(vectors: Tensor, valid: Tensor, phrase: Tensor) -> NDArray[np.float32]:
    """(R, H), (R,), (H,) -> (R,): s of eq. 1 of one phrase; −inf where there is no region."""
    similarity: NDArray[np.float32] = (vectors @ phrase).masked_fill(~valid, -torch.inf).cpu().numpy()
    return similarity


def best_similarity(similarity: Tensor) -> Tensor:
    """(P, R) -> (P,): how well the best region fits, −1 where there is none; what evidence is calibrated on."""
    return F.pad(similarity, (0, 1), value=-1.0).amax(-1)


def load_grounder(path: str | Path = "", device: str = "cpu", *, joints: bool = True) -> PhraseGrounder:
    """Load a grounder of phrases, with its calibration, if it has one.

    path: the folder that `groundling train two_branch --out` or `groundling adapt --out` wrote. Without it, the
        grounder of the package.
    device: cpu, cuda or mps.
    joints: whether a published network that finds the joints of persons helps to find what they wear, and parts of
        their bodies (`inference.bodies`).
    """
    where = device_of(device)
    folder = model_folder(path, GROUNDER)
    model = load(folder)
    model.parts.to(where)
    grounder = PhraseGrounder(model, read_calibration(folder), where)
    _ = grounder.matcher
    grounder.joints = joints and can_find_joints()
    return grounder
