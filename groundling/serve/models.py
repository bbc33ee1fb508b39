"""The models as the server uses them. The only module here that knows captioners and grounders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from groundling.serve.problems import Problem, unfit
from groundling.serve.requests import DecodingOptions
from groundling.types import Box, GroundedCaption

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from groundling.audit import Auditor, Judged
    from groundling.formats import Grounded
    from groundling.inference import DecodingSettings, GroundedCaptioner, PhraseGrounder
    from groundling.inference.grounder import GroundedPhrase
    from groundling.tensors import Regions


@dataclass(frozen=True)
class Word:
    """A word that fits a region; `evidence` as if this region were the best one for it."""

    word: str
    evidence: float


class Models:
    """A captioner and, beside it, a grounder. Captioning and grounding are for one thread; `regions` for any."""

    def __init__(self, captioner: GroundedCaptioner, grounder: PhraseGrounder | None, folder: str = "") -> None:
        """`folder`: that of the grounder, or the name of weights in the package."""
        self.captioner, self._grounder, self._folder = captioner, grounder, folder

    @staticmethod
    def load(model: str, grounder: str) -> Models:
        """The models of two folders, or those of the package; the source of regions is ready too. Called in the thread
        that infers."""
        from groundling.inference import load

        _use_one_thread()
        captioner = load(model, grounder=grounder)
        _ = captioner.source
        return Models(captioner, captioner.reranker.grounder if captioner.reranker else None, grounder or model)

    @property
    def grounder(self) -> PhraseGrounder:
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

        return Auditor.of(self.grounder, self._folder)

    # ---------------------------------------------------------------- from pixels to regions

    def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Regions:
        """The regions of an image, or of the frames of a clip as one (B = 1)."""
        from groundling.inference.colours import with_colours
        from groundling.regions.media import of_frames

        _use_one_thread()
        if not clip:
            return with_colours(self.captioner.source(pictures[0]), pictures[0])
        return of_frames([self.captioner.source(picture) for picture in pictures])

    def regions_at(self, pictures: Sequence[Image.Image], box: Box, frame: int) -> Regions:
        """The whole image, or frame of a clip, then this box of it."""
        import numpy as np

        _use_one_thread()
        at = getattr(self.captioner.source, "at", None)
        if at is None:
            name = self.captioner.source.fingerprint.name
            raise Problem(
                501, "no-box", f"the region source {name} makes features of its own boxes alone: leave out box"
            )
        if frame >= len(pictures):
            raise unfit(f"there is no frame {frame}: they are 0 to {len(pictures) - 1}", "unfit")
        width, height = pictures[frame].size
        if box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0:
            raise unfit(f"the box is outside of the image, which has {width} x {height} pixels", "unfit")
        regions: Regions = at(pictures[frame], np.array([box], np.float32))
        return regions

    # ---------------------------------------------------------------- from regions to words and boxes

    def captions(self, regions: Sequence[Regions], decoding: DecodingOptions) -> list[GroundedCaption]:
        """A caption for each image, made together."""
        from groundling.tensors import Regions

        none = [""] * len(regions)
        return self.captioner.generate(Regions.stack(regions), none, none, _settings(decoding))

    def ground(self, regions: Regions, sentence: str, phrases: Sequence[str]) -> list[GroundedPhrase]:
        """Where the noun phrases of a sentence are, or these phrases."""
        from groundling.text.noun_phrases import noun_phrases
        from groundling.text.words import words

        if not phrases and not noun_phrases([sentence])[0]:
            raise unfit('there is no noun phrase in the sentence: name what to find, such as "a dog"', "no-phrase")
        if any(not words(phrase) for phrase in phrases):
            raise unfit("one of the phrases has no word in it", "no-phrase")
        return self.grounder.ground_regions(regions, sentence, list(phrases))

    def audit(self, regions: Regions, grounded: Grounded) -> tuple[Judged, ...]:
        """Is what a text names there, and where the text says?"""
        from groundling.evaluation.evidence import parse

        if not regions.valid.any():
            raise unfit("no region was found in this image", "unfit")
        return self.auditor.judge(regions, parse([grounded.text])[0], grounded.places)

    @property
    def verdicts(self) -> tuple[str, ...]:
        from groundling.audit import VERDICTS

        return VERDICTS

    def words(self, regions: Regions, count: int) -> list[list[Word]]:
        """For each region, the words that fit it best."""
        import torch

        if not count or not len(self._words):
            return [[] for _ in range(regions.boxes.shape[1])]
        grounder, (names, vectors) = self.grounder, self._read
        with torch.inference_mode():
            fit = grounder.matcher.see(regions.to(grounder.device))[0] @ vectors.T  # (R, W)
            best = fit.topk(min(count, len(names)))
        nouns = [names[i] for i in best.indices.flatten().tolist()]
        evidence = grounder.evidence(nouns, best.values.reshape(-1, 1), None)  # of the region, not of the image
        rows = iter(evidence)
        return [[Word(names[i], round(float(next(rows) or 0.0), 4)) for i in row] for row in best.indices.tolist()]

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """Names of things that both models know."""
        vocab = self.grounder.model.vocab
        return tuple(name for name in self.captioner.model.groundable.names if name in vocab)

    @cached_property
    def _read(self) -> tuple[tuple[str, ...], Tensor]:
        import torch

        ids = torch.tensor([self.grounder.model.vocab.encode([word]) for word in self._words])
        with torch.inference_mode():
            return self._words, self.grounder.matcher.read(ids.to(self.grounder.device))

    def labels(self, regions: Regions) -> list[list[tuple[str, float]]]:
        """For each region, what the detector takes it for."""
        names = self.captioner.source.fingerprint.labels
        rows = zip(regions.labels[0].tolist(), regions.scores[0].tolist(), strict=True)
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
