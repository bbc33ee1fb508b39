"""Multi-head attention in place of the attention of `updown_aware`: the baseline of `multi_branch`.

Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021, section 4.4: several heads look at the
regions (Vaswani et al. 2017), their findings are joined, and one word is said.

      β^h = softmax(q_hᵀ k_hi / √d),   v̂ = W_o [Σ_i β^1_i v_1i; …; Σ_i β^h_i v_hi],   q = W_q h1,  k = W_k v,  v = W_v v

      loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

The paper's: several heads in place of one; of 2 to 6 it finds 4 best. Ours: their size, which is not given, and that a
word's region is the one with the greatest mean weight of the heads. All else is as in `multi_branch`, whose two stages
are as long as this one together.
"""

from dataclasses import dataclass

from groundling.errors import GroundlingError
from groundling.models.multihead import MultiHead as Attention
from groundling.recipes import BranchTraining, CrossEntropyRecipe
from groundling.recipes._captioning import build_aware_updown
from groundling.recipes._types import Classes, Layout, Parts, Vocab


@dataclass(frozen=True, kw_only=True)
class Multihead(BranchTraining, CrossEntropyRecipe):
    heads: int = 4  # how many attentions share the regions
    attention: int = 512  # size of q, k and v: all heads together
    epochs: int = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention % self.heads:
            raise GroundlingError(f"attention must be a multiple of heads; got {self.attention} and {self.heads}")

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        attend = Attention(self.hidden, self.attention, self.heads)
        return Parts(captioner=build_aware_updown(self, vocab, layout, classes, attend, coupled=bool(self.coupled)))
