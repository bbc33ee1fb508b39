"""Up-Down with the grounding-aware encoding, whose attention learns from annotated boxes: the upper bound of cyclical.

The supervised baseline of Ma et al., ECCV 2020 (table 1), after Zhou et al., Grounded Video Description, CVPR 2019. The
captioner and its training are those of `updown_aware`, the supervision of attention that of `supervised`; and the
classifiers W_c of regions are taught by the boxes:

      −log p(y*_t | y*_1 … y*_{t-1})  +  attention, as in `supervised`
         −  classes · mean over t, i with γ_ti = 1 of  log softmax(W_cᵀ f_i)_{c(y*_t)},   c(y): class of the word y

The paper's: that attention and classifiers are both taught. It prints neither losses nor weights.
The released code's (of Zhou et al., CVPR 2019): the loss of the classifiers; both weights are 0.1. Its loss of
attention is the mean of −log β_ti over all true regions of all words, and a region is true that fits any box of the
word.
Ours: the loss of attention is that of `supervised`, `nll` unless another is chosen; the classifiers learn from regions
that are true for a word of the batch, where the released code takes all boxes of the image; a region that is true for
words of two classes counts for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from groundling.models.layers import GroundingAware
from groundling.objectives.cross_entropy import cross_entropy
from groundling.objectives.region_classes import region_cross_entropy
from groundling.recipes import AwareRecipe, TrainingContext
from groundling.recipes._captioning import forced
from groundling.recipes._settings import BoxSupervision
from groundling.recipes._types import Batch, Classes, Clock, Losses, Stage, Tensor, UpDownParts, Vocab
from groundling.recipes.supervised import supervision


@dataclass(frozen=True, kw_only=True)
class SupervisedAware(AwareRecipe):
    boxes: BoxSupervision = BoxSupervision()
    classes: float = 0.1  # weight of the region classification loss; 0: W_c learns from words alone

    uses_boxes: ClassVar[bool] = True

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("xe", self.losses(class_of_word(context.vocab, context.classes)))]

    def losses(self, class_of: Tensor) -> Losses:
        """`class_of` (V,): the class of each word of the vocabulary, -1 where it has none."""

        def xe(m: UpDownParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
            decoded = forced(m, batch)
            terms = {"xe": cross_entropy(decoded.logp, batch.targets), **supervision(self.boxes, batch, decoded.attn)}
            if self.classes:
                assert batch.gold is not None and isinstance(m.captioner.encoder, GroundingAware)
                logits = m.captioner.encoder.classify(batch.regions.feats)[batch.image_of]  # (N, R, C)
                classes = class_of.to(logits.device)[batch.targets]
                terms["classes"] = self.classes * region_cross_entropy(logits, batch.gold[:, 1:], classes)
            return terms

        return xe


def class_of_word(vocab: Vocab, classes: Classes) -> Tensor:
    """(V,) int64"""
    number = {name: i for i, name in enumerate(classes.names)}
    return torch.tensor([number.get(classes.class_of.get(word, ""), -1) for word in vocab.words])
