"""Multi-head attention in place of the attention of `updown_aware`: the baseline of `multi_branch`.

Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021, section 4.4: several heads attend to
the regions (Vaswani et al. 2017), and their contexts are joined to predict one word.

      β^h = softmax(q_hᵀ k_hi / √d),   v̂ = W_o [Σ_i β^1_i v_1i; …; Σ_i β^h_i v_hi],   q = W_q h1,  k = W_k v,  v = W_v v

      loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

The paper's: several heads in place of one attention; of 2 to 6 heads it finds 4 best.
Ours: the size of the heads, which the paper does not give, and that a word's region is the one with the greatest mean
weight of the heads. All else is as in `multi_branch`: the one stage here has as many epochs as its two together.
"""

from dataclasses import dataclass

from groundling.models.multihead import MultiHead as Attention
from groundling.recipes import CrossEntropyRecipe
from groundling.recipes._captioning import build_aware_updown
from groundling.recipes._settings import AwareSize, Batches, CaptionData, Training
from groundling.recipes._types import Classes, Layout, Parts, Vocab


@dataclass(frozen=True, kw_only=True)
class Multihead(CrossEntropyRecipe):
    heads: int = 4  # how many attentions share the regions
    coupled: bool = False  # LSTM_1 also gets h2 of the word before, as in Up-Down; the paper's eq. 1 does not
    size: AwareSize = AwareSize()  # attention: size of q, k and v, all heads together, rounded up to a multiple of them
    batches: Batches = Batches(batch=64)
    data: CaptionData = CaptionData(length=20, min_count=3)
    training: Training = Training(epochs=40)

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        each = -(-self.size.attention // self.heads)  # rounded up, so that all heads are of one size
        attend = Attention(self.size.hidden, each * self.heads, self.heads)
        captioner = build_aware_updown(self.size, vocab, layout, classes, attend, coupled=bool(self.coupled))
        return Parts(captioner=captioner)
