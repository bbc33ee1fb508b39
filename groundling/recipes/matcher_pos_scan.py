"""POS-SCAN, an image-text matching model that scores nouns alone and so finds their regions: a guide of attention.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. All as in
`matcher_scan`, (1) to (7), except that S, in (7) too, is the mean over nouns:

 (1)  v_i = W_v f_i + b_v
 (2)  x_t = W_e y_t,   →h_t = GRU(x_t),   ←h_t = GRU(x_t)
 (3)  e_t = (→h_t + ←h_t) / 2
 (4)  s_it = v_iᵀ e_t / (‖v_i‖ ‖e_t‖),   s̄_it = [s_it]₊ / √(Σ_t [s_it]₊²)
 (5)  a_t = Σ_i α_it v_i,   α_it = exp(τ s̄_it) / Σ_i exp(τ s̄_it)
 (8)  S(I, T) = Σ_t 1[y_t is a noun] R_t / Σ_t 1[y_t is a noun],   R_t = e_tᵀ a_t / (‖e_t‖ ‖a_t‖)
 (7)  l = [m − S(I, T) + S(I, T̂)]₊ + [m − S(I, T) + S(Î, T)]₊,   T̂ = argmax S(I, c),   Î = argmax S(p, T)

f_i: a region, brought to mean 0 and deviation 1.  y_t: a word.  α: attention of each word.  T̂, Î: the hardest rivals
in the batch.

The released code's: v_i has unit length in (5) too; Σ_t of (4) runs over the nouns alone, so that other words take no
attention from them (`--no-nouns-only` is (4) as printed); and a batch is 128 captions.
Ours, where that code has more: [x]₊ is 0 for a negative x, and the ends of a caption are no words. Captions of one
image are never rivals, and captions without a noun do not take part (all words of such a caption do in the released
code). A caption that a model generated has no tags: its nouns are the words that are nouns in most of their
occurrences in the training captions. The mean of (7) is over the captions of the batch. Batch, learning rate and epochs
are those of SCAN for Flickr30k, see `matcher_scan`.
"""

from dataclasses import dataclass

from groundling.errors import GroundlingError
from groundling.models.scan import Scan
from groundling.recipes import MatcherRecipe, TrainingContext
from groundling.recipes._types import Classes, Layout, Parts, Stage, Vocab


@dataclass(frozen=True, kw_only=True)
class MatcherPosScan(MatcherRecipe):
    nouns_only: bool = True  # nouns alone share the attention of a region in eq. 4, as released; 0: all words do

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        sizes = (self.size.hidden, self.size.embed, self.size.temperature)
        return Parts(matcher=Scan(len(vocab), layout.dim, *sizes, vocab.nouns, bool(self.nouns_only)))

    def stages(self, context: TrainingContext) -> list[Stage]:
        if not any(context.vocab.nouns):
            raise GroundlingError("matcher_pos_scan needs nouns, and no word of this vocabulary is known to be one")
        return super().stages(context)
