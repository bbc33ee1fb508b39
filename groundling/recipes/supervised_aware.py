"""Up-Down with the grounding-aware encoding, its attention told where the words are: the upper bound beside cyclical.

The captioner and its training are those of `updown_aware` (Ma et al., ECCV 2020), the supervision of attention that of
`supervised` (Zhou et al., CVPR 2020, eq. 16):

      −log p(y*_t | y*_1 … y*_{t-1})
         + nll (−log Σ_i γ_ti β_ti)  +  kl KL(γ_t / Σ_i γ_ti ‖ β_t)  +  ce (−Σ_i γ_ti log β_ti)

γ_ti = 1 where region i has an IoU above 0.5 with a box of the word, else 0. So is the attention of the supervised
captioners trained that the papers on grounded captioning without boxes are compared with.

We depart from Ma et al., who also teach the classifiers W_c of regions by the boxes: here they learn from words alone.
"""

from dataclasses import dataclass
from typing import ClassVar

from groundling.recipes import AwareSize, CrossEntropyRecipe, PlateauTraining
from groundling.recipes._captioning import aware_updown
from groundling.recipes._types import Batch, Classes, Clock, Layout, Parts, Tensor, UpDownParts, Vocab
from groundling.recipes.supervised import Supervised


@dataclass(frozen=True, kw_only=True)
class SupervisedAware(AwareSize, PlateauTraining, CrossEntropyRecipe):
    nll: float = 0.1  # weight of −log of the attention on all true regions together
    kl: float = 0.0  # weight of the divergence from equal attention on the true regions
    ce: float = 0.0  # weight of −log of the attention on each true region

    uses_boxes: ClassVar[bool] = True

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        return Parts(captioner=aware_updown(self, vocab, layout, classes))

    def xe(self, m: UpDownParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return Supervised(nll=self.nll, kl=self.kl, ce=self.ce).xe(m, batch, clock)
