"""Models of other runs as teachers: what guides a captioner's attention, or rewards its captions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.recipes import Given, Model, load, recipe_name
from groundling.regions import fingerprints
from groundling.tensors import Batch, Matcher, Regions
from groundling.text.vocab import Vocabulary
from groundling.types import Fingerprint


def teacher(folder: Path | str, given: Given) -> nn.Module:
    """The matcher of the run in `folder`, for regions and words as given; satisfies `tensors.Matcher`."""
    return matcher_of(load(folder), str(folder), given.vocab, given.fingerprint)


def matcher_of(model: Model, name: str, vocab: Vocabulary, fingerprint: Fingerprint) -> nn.Module:
    """The matcher of a model, hearing the words of `vocab`; refuses regions of another fingerprint."""
    if "matcher" not in model.recipe.keeps:
        raise GroundlingError(
            f"{name} holds a model of {recipe_name(model.recipe)}, which matches no words with regions; "
            "train one that does: `groundling train two_branch`, `groundling train matcher_pos_scan`"
        )
    fingerprints.require(fingerprint, model.fingerprint)
    matcher: nn.Module = model.parts.matcher
    if model.vocab.words == vocab.words:
        return matcher
    return Translated(matcher, torch.tensor(model.vocab.encode(vocab.words)))


class Translated(nn.Module):
    """A matcher that hears the words of another vocabulary: `ids[i]` is its own id of their word i."""

    ids: Tensor  # (V,) int64

    def __init__(self, matcher: nn.Module, ids: Tensor) -> None:
        super().__init__()
        self.matcher = matcher
        self.register_buffer("ids", ids)

    def look(self, batch: Batch) -> Tensor:
        return self._own.look(replace(batch, tokens=self.ids[batch.tokens]))

    def point(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return self._own.point(regions, self.ids[words], image_of)

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return self._own.rate(regions, self.ids[words], image_of)

    @property
    def _own(self) -> Matcher:
        own: Matcher = self.matcher  # type: ignore[assignment]  # checked where it was made
        return own
