"""Up-Down whose attention is told where the words are: the upper bound of methods that learn it without boxes.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. The captioner is that of
`updown` (eq. 9 to 14), its attention β supervised by the boxes that people drew for the words of captions:

(16)  l1' = Σ_t  −log p(y*_t | y*_1 … y*_{t-1})  +  λ1' 1[y*_t is a noun] Σ_i −γ_ti log β_ti

γ_ti = 1 where region i has an IoU above 0.5 with a box of the word, else 0. The second term can also be, as in most of
the paper's tables, the negative log-likelihood −log Σ_i γ_ti β_ti, or the KL-divergence KL(γ_t / Σ_i γ_ti ‖ β_t).
Each form has its weight here: `ce`, `nll`, `kl`.

We depart from (16) as in `pos_scan`: the terms are means, over the words of the batch and over those that have a true
region. A phrase's boxes are those of its head where the data names one (ActivityNet-Entities does), else of each of its
nouns.
"""

from dataclasses import dataclass
from typing import ClassVar

from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.attention_truth import attention_cross_entropy, attention_nll, uniform
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import CrossEntropyRecipe, UpDownTraining
from groundling.recipes._captioning import sampled, updown
from groundling.recipes._types import Batch, Classes, Clock, Layout, Parts, Tensor, UpDownParts, Vocab


@dataclass(frozen=True, kw_only=True)
class Supervised(UpDownTraining, CrossEntropyRecipe):
    nll: float = 0.1  # weight of −log of the attention on all true regions together
    kl: float = 0.0  # weight of the divergence from equal attention on the true regions
    ce: float = 0.0  # weight of −log of the attention on each true region, as printed in eq. 16

    uses_boxes: ClassVar[bool] = True

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        return Parts(captioner=updown(self, vocab, layout))

    def xe(self, m: UpDownParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        assert batch.gold is not None  # as declared: uses_boxes
        said = sampled(m, batch, self.sampling, clock)
        beta, gamma = said.attn, batch.gold[:, 1:]  # (N, T, R)
        return {
            "xe": cross_entropy(said.logp, batch.targets),
            "nll": self.nll * attention_nll(beta, gamma),
            "kl": self.kl * attention_kl(uniform(gamma), beta, gamma.any(-1)),
            "ce": self.ce * attention_cross_entropy(beta, gamma),
        }
