"""Models of other runs as teachers: what guides a captioner's attention, or rewards its captions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.recipes import Given, load, recipe_name
from groundling.regions import fingerprints
from groundling.tensors import Batch, Matcher, Regions


def teacher(folder: Path | str, given: Given) -> nn.Module:
    """The matcher of the run in `folder`, for regions and words as given; satisfies `tensors.Matcher`."""
    model = load(folder)
    if "matcher" not in model.recipe.keeps:
        raise GroundlingError(
            f"{folder} holds a model of {recipe_name(model.recipe)}, which matches no words with regions; "
            "train a teacher with `groundling train matcher_pos_scan`"
        )
    fingerprints.require(given.fingerprint, model.fingerprint)
    matcher: nn.Module = model.parts.matcher
    if model.vocab.words == given.vocab.words:
        return matcher
    return Translated(matcher, torch.tensor(model.vocab.encode(given.vocab.words)))


class Translated(nn.Module):
    """A matcher that hears the words of another vocabulary: `ids[i]` is its own id of their word i."""

    ids: Tensor  # (V,) int64

    def __init__(self, matcher: nn.Module, ids: Tensor) -> None:
        super().__init__()
        self.matcher = matcher
        self.register_buffer("ids", ids)

    def look(self, batch: Batch) -> Tensor:
        return self._own.look(replace(batch, tokens=self.ids[batch.tokens]))

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return self._own.rate(regions, self.ids[words], image_of)

    @property
    def _own(self) -> Matcher:
        own: Matcher = self.matcher  # type: ignore[assignment]  # checked where it was made
        return own
