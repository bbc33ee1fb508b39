"""Up-Down whose attention learns from annotated boxes: the upper bound of methods that learn it without boxes.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. The captioner is that of
`updown` (eq. 9 to 14), its attention β supervised by the boxes that people drew for the words of captions:

(16)  l1' = Σ_t  −log p(y*_t | y*_1 … y*_{t-1})  +  λ1' 1[y*_t is a noun] Σ_i −γ_ti log β_ti

u_ti: IoU of region i with the box of the word.  γ_ti = 1 where u_ti > 0.5, else 0.

The paper's: (16) as printed is `ce`; its tables name the rows NLL and KL.
The released code's, and what the rows of the tables train: NLL is −log β_ti of the one region with the greatest u_ti
(`nll`); KL is KL(softmax_i(u_ti / 0.5) ‖ β_t) (`kl`); captions are learned with scheduled sampling (`sampling` 0.25).
Ours: −log Σ_i γ_ti β_ti (`nll_any`), KL(γ_t / Σ_i γ_ti ‖ β_t) (`kl_any`), which leave open which true region it is.

The box of a word that has several is the box around them all, as the evaluators take it; with --no-merge-boxes a
region is true that fits any one of them. The terms are means, over the words of the batch and over those that have a
true region, as in the released code. A phrase's boxes are those of its head where the data names one
(ActivityNet-Entities does), else of each of its nouns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.attention_truth import (
    attention_cross_entropy,
    attention_nll,
    attention_nll_best,
    softened,
    uniform,
)
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import UpDownRecipe
from groundling.recipes._settings import BoxSupervision
from groundling.recipes._types import Batch, Clock, Tensor, UpDownParts


@dataclass(frozen=True, kw_only=True)
class Supervised(UpDownRecipe):
    boxes: BoxSupervision = BoxSupervision()

    uses_boxes: ClassVar[bool] = True

    def xe(self, m: UpDownParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        decoded = self.decoded(m, batch, clock)
        return {"xe": cross_entropy(decoded.logp, batch.targets), **supervision(self.boxes, batch, decoded.attn)}


def supervision(weights: BoxSupervision, batch: Batch, beta: Tensor) -> dict[str, Tensor]:
    """The second term of eq. 16, each form that has a weight; beta (N, T, R)."""
    assert batch.gold is not None and batch.gold_iou is not None  # as declared: uses_boxes
    gamma, shared = batch.gold[:, 1:], batch.gold_iou[:, 1:]  # (N, T, R)
    placed, valid = gamma.any(-1), batch.regions.valid[batch.image_of]
    forms: dict[str, tuple[float, Callable[[], Tensor]]] = {
        "nll": (weights.nll, lambda: attention_nll_best(beta, shared, gamma)),
        "kl": (weights.kl, lambda: attention_kl(softened(shared, valid), beta, placed)),
        "ce": (weights.ce, lambda: attention_cross_entropy(beta, gamma)),
        "nll_any": (weights.nll_any, lambda: attention_nll(beta, gamma)),
        "kl_any": (weights.kl_any, lambda: attention_kl(uniform(gamma), beta, placed)),
    }
    return {name: weight * loss() for name, (weight, loss) in forms.items() if weight}
