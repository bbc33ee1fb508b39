"""Models of other runs as teachers: what guides a captioner's attention, or rewards its captions."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.models.grounder import Adapted
from groundling.models.neuraltalk import Neuraltalk2
from groundling.objectives.attention_kl import attention_kl
from groundling.recipes import Model, TrainingContext, load, recipe_name
from groundling.regions import fingerprints
from groundling.tensors import Batch, Matcher
from groundling.text.vocab import Vocabulary
from groundling.types import Fingerprint


def teacher(folder: Path | str, context: TrainingContext) -> nn.Module:
    """The matcher of the run in `folder`, for regions and words as given; satisfies `tensors.Matcher`."""
    if not folder:
        raise GroundlingError(
            "name the run of a matcher or grounder: --guide RUN. "
            "`groundling train two_branch` and `groundling train matcher_pos_scan` make one"
        )
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
    return Adapted(model.parts.matcher, own, model.recipe.data.regions_per_image)


def guide_of(folder: Path | str, context: TrainingContext) -> nn.Module:
    """The same for the attention of a captioner that was trained before, if it has any."""
    if context.start is not None and isinstance(context.start.captioner, Neuraltalk2):
        raise GroundlingError("neuraltalk has no attention, so there is nothing to guide; start with another captioner")
    return teacher(folder, context)


def guidance(guide: Matcher, batch: Batch) -> tuple[Tensor, Tensor]:
    """Attention of the guide for each word of `batch.targets` (N, T, R), and the nouns that have any (N, T) bool."""
    alpha = guide.attention(batch)
    return alpha, batch.nouns[:, 1:] & (alpha.sum(-1) > 0)


def followed(guide: Matcher, batch: Batch, attn: Tensor) -> Tensor:
    """Mean KL(guide ‖ captioner) at the nouns of a batch; attn (N, T, R), the captioner's."""
    alpha, nouns = guidance(guide, batch)
    return attention_kl(alpha, attn, nouns)
