"""Up-Down, trained with cross-entropy: the captioner that the others build on.

Anderson et al., Bottom-Up and Top-Down Attention, CVPR 2018, as Zhou et al., More Grounded Image Captioning by
Distilling Image-Text Matching Model, CVPR 2020, set it up for Flickr30k:

 (9)  v'_i = W_v f_i + b_v
(10)  h1_t = LSTM_1([h2_{t-1}; v̄; W_e y_{t-1}], h1_{t-1}),   v̄ = mean of v'_i
(11)  v̂_t = Σ_i β_{i,t} v'_i,   β_t = softmax(z_t)
(12)  z_{i,t} = w_aᵀ tanh(W_va v'_i + W_ha h1_t)
(13)  h2_t = LSTM_2([v̂_t; h1_t], h2_{t-1})
(14)  p(y_t | y_1 … y_{t-1}) = softmax(W_o h2_t + b_o)

      loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

The paper's: (9) to (14), sizes, learning rate, 30 epochs, captions of 16 words.
The released code's: ReLU and dropout after (9) and after W_e y; scheduled sampling up to 0.25 (`--sampling 0.25`, as in
the rows of the tables here). Ours: batch, dropout and the norm at which the gradient is clipped, which are not given.
"""

from dataclasses import dataclass

from groundling.recipes import UpDownRecipe


@dataclass(frozen=True, kw_only=True)
class Updown(UpDownRecipe):
    """`UpDownRecipe` of `_base.py` as it is, on which others build: sizes, parts, teacher forcing, cross-entropy."""
