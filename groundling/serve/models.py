"""The models as the server uses them. The only module here that knows captioners and grounders.

Where onnxruntime runs them, torch is never imported; `Runtime` is what differs between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from groundling.serve.problems import Problem, unfit
from groundling.serve.requests import DecodingOptions
from groundling.types import Box, GroundedCaption

if TYPE_CHECKING:
    from PIL import Image

    from groundling.audit import Auditor, PhraseVerdict
    from groundling.formats import Grounded
    from groundling.inference import DecodingSettings, GroundedCaptioner, PhraseGrounder
    from groundling.inference.captioner import OnnxCaptioner
    from groundling.inference.phrases import BaseGrounder, GroundedPhrase
    from groundling.regions.sources._photos_onnx import Seen
    from groundling.tensors import Regions


@dataclass(frozen=True)
class Word:
    """A word that fits a region. `similarity` is the cosine by which words are ranked; it is no probability."""

    word: str
    similarity: float


@dataclass(frozen=True)
class Extracted:
    """The R regions of an image or a clip: `regions` in the form of the runtime, the rest as responses tell it."""

    regions: Any
    boxes: NDArray[Any]  # (R, 4) pixels
    frame: NDArray[Any]  # (R,)
    size: tuple[int, int]
    labels: NDArray[Any]  # (R, L) the likeliest labels of the region source, −1 where there is none
    scores: NDArray[Any]  # (R, L)


class Runtime(Protocol):
    """From pixels to regions, in any thread; from regions to captions, in one."""

    def regions(self, picture: Image.Image) -> Extracted: ...

    def clip(self, pictures: Sequence[Image.Image]) -> Extracted: ...

    def at(self, picture: Image.Image, box: Box) -> Extracted:
        """The whole image, then this box of it."""
        ...

    def captions(self, regions: Sequence[Any], settings: DecodingSettings) -> list[GroundedCaption]: ...


class Onnx:
    """onnxruntime and OpenCV, without torch."""

    def __init__(self, captioner: OnnxCaptioner) -> None:
        from groundling.regions.sources._proposals import opencv

        self._captioner, self._source = captioner, captioner.engine.source
        opencv().setNumThreads(1)  # a detector of two waits for the second while others use the cores

    def regions(self, picture: Image.Image) -> Extracted:
        return self._extracted(self._source.complete(picture))

    def clip(self, pictures: Sequence[Image.Image]) -> Extracted:
        from groundling.regions.sources._photos_onnx import of_frames

        return self._extracted(of_frames([self._source.complete(picture) for picture in pictures]))

    def at(self, picture: Image.Image, box: Box) -> Extracted:
        return self._extracted(self._source.at(picture, np.array([box], np.float32)))

    def _extracted(self, seen: Seen) -> Extracted:
        return Extracted(seen, seen.boxes, seen.frame, seen.size, seen.labels, seen.scores)

    def captions(self, regions: Sequence[Seen], settings: DecodingSettings) -> list[GroundedCaption]:
        self._captioner.check(settings)
        none = [""] * len(regions)
        return self._captioner.engine.captions(regions, none, none, settings)


class Torch:
    """Any captioner and any source of regions."""

    def __init__(self, captioner: GroundedCaptioner) -> None:
        self._captioner, self._source = captioner, captioner.source

    def regions(self, picture: Image.Image) -> Extracted:
        from groundling.inference.inputs import with_pixels

        _use_one_thread()
        return self._extracted(with_pixels(self._source(picture), picture))

    def clip(self, pictures: Sequence[Image.Image]) -> Extracted:
        from groundling.regions.media import of_frames

        _use_one_thread()
        return self._extracted(of_frames([self._source(picture) for picture in pictures]))

    def at(self, picture: Image.Image, box: Box) -> Extracted:
        _use_one_thread()
        at = getattr(self._source, "at", None)
        if at is None:
            name = self._source.fingerprint.name
            raise Problem(
                501, "no-box", f"the region source {name} makes features of its own boxes alone: leave out box"
            )
        return self._extracted(at(picture, np.array([box], np.float32)))

    def _extracted(self, regions: Regions) -> Extracted:
        width, height = (round(side) for side in regions.size[0].tolist())
        names = ("boxes", "frame", "labels", "scores")
        boxes, frame, labels, scores = (getattr(regions, name)[0].numpy() for name in names)
        return Extracted(regions, boxes, frame, (width, height), labels, scores)

    def captions(self, regions: Sequence[Regions], settings: DecodingSettings) -> list[GroundedCaption]:
        from groundling.tensors import Regions

        _use_one_thread()
        none = [""] * len(regions)
        return self._captioner.generate(Regions.stack(regions), none, none, settings)


class Models:
    """A captioner and, beside it, a grounder. Captioning and grounding are for one thread; `regions` for any."""

    def __init__(self, captioner: GroundedCaptioner, folder: str = "") -> None:
        """`folder`: that of the grounder, or the name of weights in the package."""
        from groundling.inference.captioner import OnnxCaptioner

        self.runtime: Runtime = Onnx(captioner) if isinstance(captioner, OnnxCaptioner) else Torch(captioner)
        self.captioner, self._grounder, self._folder = captioner, captioner.grounder, folder

    @staticmethod
    def load(model: str, grounder: str) -> Models:
        """The models of two folders, or those of the package; the source of regions is ready too. Called in the thread
        that infers."""
        from groundling.inference import load

        return Models(load(model, grounder=grounder), grounder or model)

    @property
    def grounder(self) -> BaseGrounder:
        if self._grounder is None:
            raise Problem(501, "no-grounder", "this server has no grounder: start it with --grounder RUN, calibrated")
        return self._grounder

    def warm(self) -> None:
        """Load what the first sentence would wait for."""
        from groundling.text.noun_phrases import noun_phrases
        from groundling.text.wordnet import wordnet

        noun_phrases(["a dog"])
        wordnet()

    @cached_property
    def auditor(self) -> Auditor:
        """With the thresholds that are kept beside the grounder, as `groundling audit` has it."""
        from groundling.audit import Auditor

        return Auditor.of(cast("PhraseGrounder", self.grounder), self._folder)  # it asks of it what both can

    # ---------------------------------------------------------------- from pixels to regions

    def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Extracted:
        """The regions of an image, or of the frames of a clip as one."""
        return self.runtime.clip(pictures) if clip else self.runtime.regions(pictures[0])

    def regions_at(self, pictures: Sequence[Image.Image], box: Box, frame: int) -> Extracted:
        """The whole image, or frame of a clip, then this box of it."""
        if frame >= len(pictures):
            raise unfit(f"there is no frame {frame}: they are 0 to {len(pictures) - 1}", "unfit")
        width, height = pictures[frame].size
        if box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0:
            raise unfit(f"the box is outside of the image, which has {width} x {height} pixels", "unfit")
        return self.runtime.at(pictures[frame], box)

    # ---------------------------------------------------------------- from regions to words and boxes

    def captions(self, images: Sequence[Extracted], decoding: DecodingOptions) -> list[GroundedCaption]:
        """A caption for each image, made together."""
        return self.runtime.captions([one.regions for one in images], _settings(decoding))

    def ground(self, image: Extracted, sentence: str, phrases: Sequence[str]) -> list[GroundedPhrase]:
        """Where the noun phrases of a sentence are, or these phrases."""
        from groundling.text.noun_phrases import noun_phrases
        from groundling.text.words import words

        if not phrases and not noun_phrases([sentence])[0]:
            raise unfit('there is no noun phrase in the sentence: name what to find, such as "a dog"', "no-phrase")
        if any(not words(phrase) for phrase in phrases):
            raise unfit("one of the phrases has no word in it", "no-phrase")
        return self.grounder.ground_regions(image.regions, sentence, list(phrases))

    def audit(self, image: Extracted, grounded: Grounded) -> tuple[PhraseVerdict, ...]:
        """Is what a text names there, and where the text says?"""
        from groundling.evaluation.evidence import parse

        if not len(image.boxes):
            raise unfit("no region was found in this image", "unfit")
        return self.auditor.audit(image.regions, parse([grounded.text], stops=True)[0], grounded.places)

    @property
    def verdicts(self) -> tuple[str, ...]:
        from groundling.audit import VERDICTS

        return VERDICTS

    def words(self, image: Extracted, count: int) -> list[list[Word]]:
        """For each region, the words that fit it best."""
        names = self._words
        if not count or not names:
            return [[] for _ in image.boxes]
        fit = self.grounder.word_fit(image.regions, names)  # (R, W)
        best = np.argsort(-fit, axis=1, kind="stable")[:, :count]
        similarity = np.take_along_axis(fit, best, 1)
        return [
            [Word(names[i], round(float(s), 4)) for i, s in zip(*row, strict=True)]
            for row in zip(best, similarity, strict=True)
        ]

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """Names of things that both models know."""
        vocab = self.grounder.vocab
        return tuple(name for name in self.captioner.groundable.names if name in vocab)

    def labels(self, image: Extracted) -> list[list[tuple[str, float]]]:
        """For each region, what the detector takes it for."""
        names = self.captioner.fingerprint.labels
        rows = zip(image.labels.tolist(), image.scores.tolist(), strict=True)
        return [[(names[i], round(p, 4)) for i, p in zip(*row, strict=True) if 0 <= i < len(names)] for row in rows]


def _use_one_thread() -> None:
    """In a thread that extracts regions, and in that of inference: one thread of calculation. The cores are shared
    by these threads; two each took about a fifth more processor time, and sums would depend on how they are split."""
    import torch

    torch.set_num_threads(1)


def _settings(decoding: DecodingOptions) -> DecodingSettings:
    from groundling.inference import BeamSearch, Sampling

    options: dict[str, Any] = dict(decoding.options)
    return Sampling(**options) if decoding.sample else BeamSearch(**options)
