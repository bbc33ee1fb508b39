"""A grounder beside a captioner: it helps to choose the box of each noun, and tells how likely the thing is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from groundling import recipes
from groundling.inference import links
from groundling.inference.calibration import read_calibration
from groundling.inference.grounder import PhraseGrounder, RegionFeatures
from groundling.models.grounder import Grounder
from groundling.recipes._teachers import Adapted, matcher_of
from groundling.tensors import Decoding, Regions
from groundling.types import GroundedCaption


@dataclass(frozen=True)
class Reranker:
    """Made by `load_reranker`. The regions go through the grounder once (`features`), for boxes and for evidence."""

    matcher: Adapted  # takes the captioner's word ids
    weight: float  # 0: only the captioner's attention counts; 1: only the matcher's
    grounder: PhraseGrounder | None = None  # the same, where it is a grounder of phrases

    def features(self, regions: Regions) -> RegionFeatures | None:
        """What the grounder computes of all regions that it uses; None for another matcher."""
        return None if self.grounder is None else self.grounder.features(regions)

    def rerank(self, decoded: Decoding, regions: Regions, features: RegionFeatures | None) -> Decoding:
        """See `links.rerank`; `regions` are those that the captioner saw."""
        vectors = None if features is None else features.vectors
        return links.rerank(decoded, regions, partial(self.matcher.point, features=vectors), self.weight)

    def add_evidence(
        self, captions: Sequence[GroundedCaption], features: RegionFeatures | None
    ) -> list[GroundedCaption]:
        """The same captions, each link with its evidence where the grounder is calibrated."""
        if self.grounder is None or features is None:
            return list(captions)
        return self.grounder.add_evidence(captions, features)


def load_reranker(folder: Path, weight: float, model: recipes.Model, device: torch.device) -> Reranker:
    """The grounder or matcher in a folder, for the captions of `model`."""
    trained = recipes.load(folder)
    matcher: Any = matcher_of(trained, str(folder), model.vocab, model.fingerprint).to(device)
    is_grounder = isinstance(matcher.matcher, Grounder)
    return Reranker(matcher, weight, PhraseGrounder(trained, read_calibration(folder), device) if is_grounder else None)
