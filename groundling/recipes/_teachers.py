"""Models of other runs as teachers: what guides a captioner's attention, or rewards its captions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.models.grounder import Grounder
from groundling.models.neuraltalk import Neuraltalk2
from groundling.objectives.attention_kl import attention_kl
from groundling.recipes import Model, TrainingContext, load, recipe_name
from groundling.regions import fingerprints
from groundling.tensors import Batch, Matcher, Regions
from groundling.text.vocab import Vocabulary
from groundling.types import Fingerprint


def teacher(folder: Path | str, context: TrainingContext) -> nn.Module:
    """The matcher of the run in `folder`, for regions and words as given; satisfies `tensors.Matcher`."""
    return matcher_of(load(folder), str(folder), context.vocab, context.fingerprint)


def matcher_of(model: Model, name: str, vocab: Vocabulary, fingerprint: Fingerprint) -> nn.Module:
    """The matcher of a model, for captions in the words of `vocab`; refuses regions of another fingerprint."""
    if "matcher" not in model.recipe.saved_modules:
        raise GroundlingError(
            f"{name} holds a model of {recipe_name(model.recipe)}, which matches no words with regions; "
            "train one that does: `groundling train two_branch`, `groundling train matcher_pos_scan`"
        )
    fingerprints.require(fingerprint, model.fingerprint)
    own = torch.tensor(model.vocab.encode(vocab.words))
    return Adapted(model.parts.matcher, own, model.recipe.regions_per_image)


def guide_of(folder: Path | str, context: TrainingContext) -> nn.Module:
    """The same for the attention of a captioner that was trained before, if it has any."""
    if context.start is not None and isinstance(context.start.captioner, Neuraltalk2):
        raise GroundlingError("neuraltalk looks at no region, so there is nothing to guide; start with another")
    return teacher(folder, context)


def guidance(guide: Matcher, batch: Batch) -> tuple[Tensor, Tensor]:
    """Where the guide looks for each word of `batch.targets` (N, T, R), and the nouns that it places (N, T) bool."""
    alpha = guide.look(batch)
    return alpha, batch.nouns[:, 1:] & (alpha.sum(-1) > 0)


def followed(guide: Matcher, batch: Batch, attn: Tensor) -> Tensor:
    """Mean KL(guide ‖ captioner) at the nouns of a batch; attn (N, T, R), the captioner's."""
    alpha, nouns = guidance(guide, batch)
    return attention_kl(alpha, attn, nouns)


class Adapted(nn.Module):
    """A matcher of another run, in its own words and with no more regions than it was trained with.

    `ids[i]` is its own id of the pupil's word i. It sees the first `limit` regions of an image, and so has no opinion
    of the others: it teaches nobody to look there (`look` is 0), but speaks against none of them (`point`).
    """

    ids: Tensor  # (V,) int64

    def __init__(self, matcher: nn.Module, ids: Tensor, limit: int) -> None:
        super().__init__()
        self.matcher, self.limit = matcher, limit
        self.register_buffer("ids", ids)

    def look(self, batch: Batch) -> Tensor:
        seen = replace(batch, tokens=self.ids[batch.tokens], regions=batch.regions.first(self.limit))
        return _widened(self._own.look(seen), batch.regions)

    def point(self, regions: Regions, words: Tensor, image_of: Tensor, features: Tensor | None = None) -> Tensor:
        """Of R regions, each that is not seen has 1 / R, as by chance; those that are seen share the rest.

        `features`: what a grounder computes of the regions, where that was done before; see `Grounder.point`.
        """
        few, ids = regions.first(self.limit), self.ids[words]
        if features is not None and isinstance(self.matcher, Grounder):
            placed = self.matcher.point(few, ids, image_of, features[:, : few.valid.shape[1]])
        else:
            placed = self._own.point(few, ids, image_of)
        seen = _widened(placed, regions)
        chance = regions.valid / regions.valid.sum(1, keepdim=True).clamp(min=1)  # (B, R)
        chance[:, : self.limit] = 0
        others = chance.to(seen.dtype)[image_of][:, None]  # (N, 1, R)
        return seen * (1 - others.sum(-1, keepdim=True)) + others * (seen.sum(-1, keepdim=True) > 0)

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return self._own.rate(regions.first(self.limit), self.ids[words], image_of)

    @property
    def _own(self) -> Matcher:
        own: Matcher = self.matcher  # type: ignore[assignment]  # checked where it was made
        return own


def _widened(attn: Tensor, regions: Regions) -> Tensor:
    """(N, T, r) -> (N, T, R), 0 for the regions that were not seen."""
    return F.pad(attn, (0, regions.valid.shape[1] - attn.shape[2]))
