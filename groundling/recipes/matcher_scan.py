"""SCAN, an image-text matching model: how well a caption fits an image, and which region each word means.

Lee et al., Stacked Cross Attention for Image-Text Matching, ECCV 2018, text to image, as Zhou et al., More Grounded
Image Captioning by Distilling Image-Text Matching Model, CVPR 2020, use it: a scorer of captions. For a guide of
attention see `matcher_pos_scan`.

 (1)  v_i = W_v f_i + b_v
 (2)  x_t = W_e y_t,   →h_t = GRU(x_t),   ←h_t = GRU(x_t)
 (3)  e_t = (→h_t + ←h_t) / 2
 (4)  s_it = v_iᵀ e_t / (‖v_i‖ ‖e_t‖),   s̄_it = [s_it]₊ / √(Σ_t [s_it]₊²)
 (5)  a_t = Σ_i α_it v_i,   α_it = exp(τ s̄_it) / Σ_i exp(τ s̄_it)
 (6)  S(I, T) = (1/n) Σ_t R_t,   R_t = e_tᵀ a_t / (‖e_t‖ ‖a_t‖)
 (7)  l = [m − S(I, T) + S(I, T̂)]₊ + [m − S(I, T) + S(Î, T)]₊,   T̂ = argmax S(I, c),   Î = argmax S(p, T)

f_i: a region, brought to mean 0 and deviation 1.  y_t: a word.  α: attention of each word.  T̂, Î: the hardest rivals
in the batch.

The released code's (of SCAN, to which the paper refers): v_i has unit length in (5) too; a batch is 128 captions, each
with its image; 30 epochs over all captions, the rate falling after 15. Here an epoch shows each image with one caption,
so 30 epochs over five captions are 150, 15 are 75. For COCO: --lr 5e-4 --epochs 100 --decay-every 50.
Ours, where that code has more: [x]₊ is 0 for a negative x, and the ends of a caption are no words. Captions of one
image are never rivals. The mean of (7) is over the captions of the batch.
"""

from dataclasses import dataclass

from groundling.models.scan import Scan
from groundling.recipes import MatcherRecipe
from groundling.recipes._types import Classes, Layout, Parts, Vocab


@dataclass(frozen=True, kw_only=True)
class MatcherScan(MatcherRecipe):
    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        sizes = (self.size.hidden, self.size.embed, self.size.temperature)
        return Parts(matcher=Scan(len(vocab), layout.dim, *sizes))
