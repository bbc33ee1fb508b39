"""Up-Down whose attention follows that of an image-text matching model, at the nouns of captions.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. The captioner is that of
`updown` (eq. 9 to 14). The first of its two stages, cross-entropy:

(15)  l1 = Σ_t  −log p(y*_t | y*_1 … y*_{t-1})  +  λ1 1[y*_t is a noun] KL(β_t ‖ α_t)

β: attention of the captioner.  α: attention of the guide, a matcher that was trained before (`matcher_pos_scan`, or
`matcher_scan` to compare). The guide does not learn, and is not saved with the captioner.  The second stage, eq. 17 to
19, is `scst`.

The paper's: (15); λ1 = 0.1 for Flickr30k, 0.2 with the features of Zhou et al., CVPR 2019, and 1 for COCO. The weight
of KL(β ‖ α), as (15) has it, is `lam1_reverse`, here 0.
The released code's: KL(α ‖ β) instead, whose weight is `lam1`; means over the words and over the nouns of the batch,
instead of sums; scheduled sampling up to 0.25 (`--sampling 0.25`, as in the rows of the tables here).
Ours: a noun for which the guide has no attention to any region does not count.
"""

from dataclasses import dataclass

from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, UpDownRecipe
from groundling.recipes._teachers import guidance, teacher
from groundling.recipes._types import Batch, Clock, Tensor, UpDownParts, nn
from groundling.tensors import Matcher


class GuidedUpDownParts(UpDownParts):
    guide: Matcher


@dataclass(frozen=True, kw_only=True)
class PosScan(UpDownRecipe):
    guide: str = ""  # run of the matcher whose attention is followed; required
    lam1: float = 0.1  # weight of KL(guide ‖ captioner), as in the authors' code
    lam1_reverse: float = 0.0  # weight of KL(captioner ‖ guide), as printed in eq. 15

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {"guide": teacher(self.guide, context)}

    def xe(self, m: GuidedUpDownParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        decoded = self.decoded(m, batch, clock)
        (alpha, nouns), beta = guidance(m.guide, batch), decoded.attn
        return {
            "xe": cross_entropy(decoded.logp, batch.targets),
            "attention": self.lam1 * attention_kl(alpha, beta, nouns),
            "attention reverse": self.lam1_reverse * attention_kl(beta, alpha, nouns),
        }
