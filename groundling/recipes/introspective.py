"""Introspective learning: a caption must be likelier for its own image than for another.

The max-margin training of Mao et al., Generation and Comprehension of Unambiguous Object Descriptions, CVPR 2016, which
Dai and Lin, NeurIPS 2017 (table 4), compare as IL, together with Vedantam et al., Context-aware Captions from
Context-agnostic Supervision, CVPR 2017. Goes on with any trained captioner:

    loss = −ln p(c | I) + λ max(0, M − ln p(c | I) + ln p(c | I'))

averaged over the captions. The captioner is its own reference: nothing holds it where it was. The last weights are
kept: those with the best CIDEr-D would be those that had learned the least.

We depart from the paper in I': it is the next image of the batch, another one in every epoch, and not one that was
fixed before training. Dropout is off, as in `contrastive`, for a comparison of objectives alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.objectives.contrastive import margin
from groundling.objectives.mean import mean_over
from groundling.recipes import TrainingContext, _config
from groundling.recipes.contrastive import logp
from groundling.tensors import Batch
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score


@dataclass(frozen=True)
class Introspective:
    weight: float = 1.0  # λ of the margin term
    margin: float = 1.0  # M, in nats of the whole caption
    lr: float = 1e-6  # learning rate of Adam
    clip: float = 5.0  # largest norm of the gradient
    epochs: int = 30  # how often each image is seen
    batch: int = 16  # images in a batch
    captions_per_image: int = 5  # captions of each of them

    uses_boxes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _config.check(self)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [Stage("il", self.il, self.lr, self.epochs, ("captioner",), self.clip, watch="")]

    def il(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        captioner, images = m.captioner.eval(), len(batch.ids)
        own = logp(captioner, batch, batch.image_of, batch.tokens)
        other = logp(captioner, batch, (batch.image_of + 1) % images, batch.tokens)
        every = torch.ones_like(own, dtype=torch.bool)
        return {
            "own": -mean_over(own, every),
            "other": self.weight * margin(own, other, every & (images > 1), self.margin),
        }

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
