"""Up-Down whose attention learns from annotated boxes: the upper bound of methods that learn it without boxes.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. The captioner is that of
`updown` (eq. 9 to 14), its attention β supervised by the boxes that people drew for the words of captions:

(16)  l1' = Σ_t  −log p(y*_t | y*_1 … y*_{t-1})  +  λ1' 1[y*_t is a noun] Σ_i −γ_ti log β_ti

u_ti: IoU of region i with the box of the word.  γ_ti = 1 where u_ti > 0.5, else 0.

Each form of the second term has a weight; a form with weight 0 is not computed:
  `nll`      −log β_ti of the one region i with the greatest u_ti         the released code's NLL
  `kl`       KL(softmax_i(u_ti / 0.5) ‖ β_t)                              the released code's KL
  `ce`       Σ_i −γ_ti log β_ti                                           the paper's (16), as printed
  `nll_any`  −log Σ_i γ_ti β_ti                                           ours: it is open which true region it is
  `kl_any`   KL(γ_t / Σ_i γ_ti ‖ β_t)                                     ours: equal attention to all true regions

The paper's: (16), and that its second term may be NLL or KL. The row of its tables is 0.1 NLL, the default here.
The released code's: `nll` and `kl`; means, over the words of the batch and over the words that the term is for, instead
of sums; scheduled sampling up to 0.25 (`--sampling 0.25`, as in the rows of the tables here).
Ours: all forms but `kl` are for words that have a true region; `kl`, as released, is also for words whose box no region
fits well, but one overlaps.

A word that has several boxes is judged by the box around them all, and u_ti is the IoU with that box; with
--no-merge-boxes it is the greatest IoU with any of them. A phrase's boxes are those of its head where the data names
one (ActivityNet-Entities does), else of each of its nouns.
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
    placed, boxed, valid = gamma.any(-1), (shared > 0).any(-1), batch.regions.valid[batch.image_of]
    forms: dict[str, tuple[float, Callable[[], Tensor]]] = {
        "nll": (weights.nll, lambda: attention_nll_best(beta, shared, gamma)),
        "kl": (weights.kl, lambda: attention_kl(softened(shared, valid), beta, boxed)),
        "ce": (weights.ce, lambda: attention_cross_entropy(beta, gamma)),
        "nll_any": (weights.nll_any, lambda: attention_nll(beta, gamma)),
        "kl_any": (weights.kl_any, lambda: attention_kl(uniform(gamma), beta, placed)),
    }
    return {name: weight * loss() for name, (weight, loss) in forms.items() if weight}
