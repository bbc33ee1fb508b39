"""The models as the server uses them. The only module here that knows captioners and grounders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from groundling.serve.asks import Choice
from groundling.serve.problems import Problem, unfit
from groundling.types import Box, GroundedCaption, Span

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from groundling.inference import DecodingSettings, GroundedCaptioner, PhraseGrounder
    from groundling.tensors import Regions


@dataclass(frozen=True)
class Place:
    """A phrase and its place; `evidence` is how likely it is in the image at all, None where nobody knows."""

    phrase: str
    span: Span
    box: Box
    score: float
    evidence: float | None
    found: bool
    unknown: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        evidence = None if self.evidence is None else round(self.evidence, 4)
        box, score = [round(x, 1) for x in self.box], round(self.score, 4)
        return vars(self) | {"box": box, "score": score, "evidence": evidence}


@dataclass(frozen=True)
class Word:
    """A word that fits a region; `evidence` as if this region were the best place for it."""

    word: str
    evidence: float


class Models:
    """A captioner and, beside it, a grounder. Captioning and grounding are for one thread; `regions` for any."""

    def __init__(self, captioner: GroundedCaptioner, grounder: PhraseGrounder | None) -> None:
        self.captioner, self._grounder = captioner, grounder

    @staticmethod
    def load(model: str, grounder: str) -> Models:
        """The models of two folders, or those of the package; the source of regions is ready too."""
        from groundling.inference import load

        captioner = load(model, grounder=grounder)
        _ = captioner.source
        return Models(captioner, captioner.reranker.grounder if captioner.reranker else None)

    @property
    def grounder(self) -> PhraseGrounder:
        if self._grounder is None:
            raise Problem(501, "no-grounder", "this server has no grounder: start it with --grounder RUN, calibrated")
        return self._grounder

    def warm(self) -> None:
        """Load what the first sentence would wait for."""
        from groundling.text.noun_phrases import noun_phrases

        noun_phrases(["a dog"])

    # ---------------------------------------------------------------- from pixels to regions

    def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Regions:
        """What the models see of an image, or of the frames of a clip as one (B = 1)."""
        from groundling.regions.media import of_frames

        if not clip:
            return self.captioner.source(pictures[0])
        return of_frames([self.captioner.source(picture) for picture in pictures])

    # ---------------------------------------------------------------- from regions to words and places

    def captions(self, regions: Sequence[Regions], choice: Choice) -> list[GroundedCaption]:
        """A caption for each image, made together."""
        from groundling.tensors import Regions

        none = [""] * len(regions)
        return self.captioner.generate(Regions.stack(regions), none, none, _decoding(choice))

    def ground(self, regions: Regions, sentence: str, phrases: Sequence[str]) -> list[Place]:
        """Where the noun phrases of a sentence are, or these phrases."""
        from groundling.text.noun_phrases import noun_phrases
        from groundling.text.words import words

        if not phrases and not noun_phrases([sentence])[0]:
            raise unfit("there is no noun phrase in the sentence: name what to look for with phrases", "no-phrase")
        if any(not words(phrase) for phrase in phrases):
            raise unfit("one of the phrases has no word in it", "no-phrase")
        found = self.grounder.ground_regions(regions, sentence, list(phrases))
        return [Place(f.phrase, f.span, f.box, f.score, f.evidence, f.found, f.unknown) for f in found]

    def phrases(self, sentence: str) -> list[tuple[str, Span]]:
        """The noun phrases of a sentence and their characters."""
        from groundling.text.noun_phrases import noun_phrases

        return [(one.text, one.span) for one in noun_phrases([sentence])[0]]

    def words(self, regions: Regions, count: int) -> list[list[Word]]:
        """For each region, the words that fit it best."""
        import torch

        if not count or not len(self._words):
            return [[] for _ in range(regions.boxes.shape[1])]
        grounder, (names, vectors) = self.grounder, self._read
        with torch.inference_mode():
            fit = grounder.matcher.see(regions.to(grounder.device))[0] @ vectors.T  # (R, W)
            best = fit.topk(min(count, len(names)))
        evidence = grounder.evidence(best.values.reshape(-1, 1))
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


def _decoding(choice: Choice) -> DecodingSettings:
    from groundling.inference import BeamSearch, Sampling

    options: dict[str, Any] = dict(choice.options)
    return Sampling(**options) if choice.sample else BeamSearch(**options)
