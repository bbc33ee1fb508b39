"""SCAN, an image-text matching model: how well a caption fits an image, and which region each word means.

Lee et al., Stacked Cross Attention for Image-Text Matching, ECCV 2018, text to image, as Zhou et al., More Grounded
Image Captioning by Distilling Image-Text Matching Model, CVPR 2020, use it: a judge of captions. For a guide of
attention see `matcher_pos_scan`.

 (1)  v_i = W_v f_i + b_v
 (2)  x_t = W_e y_t,   →h_t = GRU(x_t),   ←h_t = GRU(x_t)
 (3)  e_t = (→h_t + ←h_t) / 2
 (4)  s_it = v_iᵀ e_t / (‖v_i‖ ‖e_t‖),   s̄_it = [s_it]₊ / √(Σ_t [s_it]₊²)
 (5)  a_t = Σ_i α_it v_i,   α_it = exp(τ s̄_it) / Σ_i exp(τ s̄_it)
 (6)  S(I, T) = (1/n) Σ_t R_t,   R_t = e_tᵀ a_t / (‖e_t‖ ‖a_t‖)
 (7)  l = [m − S(I, T) + S(I, T̂)]₊ + [m − S(I, T) + S(Î, T)]₊,   T̂ = argmax S(I, c),   Î = argmax S(p, T)

f_i: a region, brought to mean 0 and deviation 1.  y_t: a word.  α: where each word looks.  T̂, Î: the hardest rivals
in the batch.

We depart from the equations as the code of SCAN does: v_i has unit length in (5) too. We follow them where that code
has more: [x]₊ is 0 for a negative x, and the ends of a caption are no words. Captions of one image are never rivals.
The mean of (7) is over the captions of the batch. Batch, learning rate and epochs are those of SCAN, to which the paper
refers; there, a batch has one caption of each of 128 images.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.scan import Scan
from groundling.recipes import TrainingContext, _config
from groundling.recipes._matching import hardest_triplet, retrieval_scores
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class MatcherScan:
    hidden: int = 1024  # size of v and e
    embed: int = 300  # size of a word's embedding
    temperature: float = 9.0  # τ of eq. 5, the inverse temperature of the attention; at most 30
    margin: float = 0.2  # m of eq. 7
    lr: float = 2e-4  # learning rate of Adam
    decay: float = 0.1  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 15  # epochs
    clip: float = 2.0  # largest norm of the gradient
    epochs: int = 30  # how often each image is seen
    patience: int = 0  # stop after so many epochs without a better rsum; 0: never
    batch: int = 128  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 50  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 36  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("matcher",)

    def __post_init__(self) -> None:
        _config.check(self, zero=("patience",))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        return Parts(matcher=Scan(len(vocab), layout.dim, self.hidden, self.embed, self.temperature))

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule = StepDecay(self.decay, self.decay_every)
        return [
            Stage("match", self.match, self.lr, self.epochs, ("matcher",), self.clip, schedule, "rsum", self.patience)
        ]

    def match(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"triplet": hardest_triplet(m.matcher, batch, self.margin)}

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return retrieval_scores(m.matcher, batches, device, context.validation_split)
