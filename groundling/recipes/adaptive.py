"""AdaptiveAttention, trained with cross-entropy: each word attends to the image or to a visual sentinel.

Lu et al., Knowing When to Look: Adaptive Attention via a Visual Sentinel for Image Captioning, CVPR 2017:

    v_i = ReLU(W_a f_i),   v^g = ReLU(W_b f̄)                      f: a region, f̄: the whole image
    x_t = [ReLU(W_e y_t); v^g],   h_t, m_t = LSTM(x_t, h_{t-1}, m_{t-1})
    α_t = softmax(z_t),   z_{i,t} = w_hᵀ tanh(W_v v_i + W_g h_t),   c_t = Σ_i α_{i,t} v_i         (6, 7, 8)
    s_t = σ(W_x x_t + W_h h_{t-1}) ⊙ tanh(m_t)                                                    (9, 10)
    ĉ_t = β_t s_t + (1 − β_t) c_t,   β_t = softmax([z_t; w_hᵀ tanh(W_s s_t + W_g h_t)])_last      (11, 12)
    p(y_{t+1} | y_1 … y_t) = softmax(W_p (ĉ_t + h_t))                                             (13)

    loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

The places of its words are those of α_t, in which the sentinel has no share. The base of Dai and Lin, NeurIPS 2017, who
cut captions at 18 words.

The papers': (6) to (13), and that length. Ours: it attends to regions instead of a grid of 7 x 7, the network that
makes them is not trained, and a ReLU is after W_e y, as `updown` has it."""

from dataclasses import dataclass

from groundling.models.adaptive import AdaptiveAttention, SentinelAttention
from groundling.recipes import CrossEntropyRecipe
from groundling.recipes._settings import CaptionData, UpDownSize
from groundling.recipes._types import Classes, Layout, Parts, Vocab


@dataclass(frozen=True, kw_only=True)
class Adaptive(CrossEntropyRecipe):
    size: UpDownSize = UpDownSize()  # hidden: size of v, h and s
    data: CaptionData = CaptionData(length=18)

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        attend = SentinelAttention(self.size.hidden, self.size.attention)
        sizes = (layout.whole, self.size.hidden, self.size.embed, self.size.dropout)
        return Parts(captioner=AdaptiveAttention(len(vocab), layout.dim, attend, *sizes))
