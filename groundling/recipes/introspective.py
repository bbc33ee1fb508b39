"""Introspective learning: a caption must be likelier for its own image than for another.

The max-margin training of Mao et al., Generation and Comprehension of Unambiguous Object Descriptions, CVPR 2016, which
Dai and Lin, NeurIPS 2017 (table 4), compare as IL, together with Vedantam et al., Context-aware Captions from
Context-agnostic Supervision, CVPR 2017. Goes on with any trained captioner:

    loss = −ln p(c | I) + λ max(0, M − ln p(c | I) + ln p(c | I'))

averaged over the captions. The captioner is its own reference: nothing holds it where it was. The last weights are
kept: those with the best CIDEr-D would be those that had learned the least.

The paper's: the loss. Ours: I' is the next image of the batch, another one in every epoch, and not one that was fixed
before training. Dropout is off, as in `contrastive`, for a comparison of objectives alone.
"""

from dataclasses import dataclass

import torch

from groundling.objectives.contrastive import margin
from groundling.objectives.mean import mean_over
from groundling.recipes import Recipe, TrainingContext
from groundling.recipes._settings import Constant, Training
from groundling.recipes._types import Batch, CaptionerParts, Clock, Stage, Tensor
from groundling.recipes.contrastive import logp


@dataclass(frozen=True, kw_only=True)
class Introspective(Recipe):
    weight: float = 1.0  # λ of the margin term
    margin: float = 1.0  # M, in nats of the whole caption
    training: Training = Training(lr=1e-6, schedule=Constant())

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("il", self.il, watch="")]

    def il(self, m: CaptionerParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        captioner, images = m.captioner.eval(), len(batch.ids)
        own = logp(captioner, batch, batch.image_of, batch.tokens)
        other = logp(captioner, batch, (batch.image_of + 1) % images, batch.tokens)
        every = torch.ones_like(own, dtype=torch.bool)
        return {
            "own": -mean_over(own, every),
            "other": self.weight * margin(own, other, every & (images > 1), self.margin),
        }
