"""Fine-tune the attention of a trained captioner to follow a grounder or matcher.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020, train Up-Down with
cross-entropy and the attention of POS-SCAN at once (`pos_scan`). Here the same loss goes on with any trained captioner
that attends to regions, and any guide: `matcher_pos_scan`, `matcher_scan` or the phrase grounder `two_branch`.

(15)  l = 1/K Σ_k −log p_k(y*_t | y*_1 … y*_{t-1})  +  λ1 1[y*_t is a noun] KL(α_t ‖ β_t)

β: attention of the captioner, of the first branch where it has K > 1 as `multi_branch` has.  α: of the guide, frozen;
a noun that the guide does not place does not count. Both terms are means, over the words and over the nouns.

The composition is ours. With cyclical training either may come first: this after `cyclical`, or `cyclical --pretrain 0
--start` after this.
"""

from dataclasses import dataclass

import torch

from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import Recipe, TrainingContext
from groundling.recipes._captioning import forced
from groundling.recipes._settings import Batches, Training
from groundling.recipes._teachers import followed, guide_of
from groundling.recipes._types import Batch, Clock, GuidedParts, Stage, Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Distill(Recipe):
    guide: str = ""  # run of the matcher or grounder whose attention is followed
    lam1: float = 0.1  # weight of KL(guide ‖ captioner)
    batches: Batches = Batches(batch=32)
    training: Training = Training(lr=1e-4, epochs=10)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {"guide": guide_of(self.guide, context)}

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("distill", self.xe)]

    def xe(self, m: GuidedParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        decoded = forced(m, batch)
        branches = decoded.branches or (decoded,)
        return {
            "xe": torch.stack([cross_entropy(branch.logp, batch.targets) for branch in branches]).mean(),
            "attention": self.lam1 * followed(m.guide, batch, branches[0].attn),
        }
