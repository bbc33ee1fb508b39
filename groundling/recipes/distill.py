"""A trained captioner learns where to look from a model that knows where words are.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020, train Up-Down with
cross-entropy and the attention of POS-SCAN at once (`pos_scan`). Here the same loss goes on with any trained captioner
that attends to regions, and any guide: `matcher_pos_scan`, `matcher_scan` or the phrase grounder `two_branch`.

(15)  l = 1/K Σ_k −log p_k(y*_t | y*_1 … y*_{t-1})  +  λ1 1[y*_t is a noun] KL(α_t ‖ β_t)

β: attention of the captioner, of the first branch where it has K > 1 as `distributed` has.  α: of the guide, frozen;
a noun that the guide does not place does not count. Both terms are means, over the words and over the nouns.

The composition is ours. With cyclical training either may come first: this after `cyclical`, or `cyclical --pretrain 0
--start` after this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import forced
from groundling.recipes._teachers import followed, guide_of
from groundling.tensors import Batch
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score


@dataclass(frozen=True)
class Distill:
    guide: str = ""  # run of the matcher or grounder whose attention is followed
    lam1: float = 0.1  # weight of KL(guide ‖ captioner)
    lr: float = 1e-4  # learning rate of Adam
    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs
    clip: float = 5.0  # largest norm of the gradient
    epochs: int = 10  # how often each image is seen
    patience: int = 0  # stop after so many epochs without a better CIDEr-D; 0: never
    batch: int = 32  # images in a batch
    captions_per_image: int = 5  # captions of each of them

    uses_boxes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _config.check(self, zero=("patience",))

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        if not self.guide:
            raise GroundlingError("name the run of a matcher or grounder: --guide RUN (`groundling train two_branch`)")
        return {"guide": guide_of(self.guide, context)}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule, only = StepDecay(self.decay, self.decay_every), ("captioner",)
        return [Stage("distill", self.xe, self.lr, self.epochs, only, self.clip, schedule, patience=self.patience)]

    def xe(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        said = forced(m, batch)
        branches = said.branches or (said,)
        return {
            "xe": torch.stack([cross_entropy(branch.logp, batch.targets) for branch in branches]).mean(),
            "look": self.lam1 * followed(m.guide, batch, branches[0].attn),
        }

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
