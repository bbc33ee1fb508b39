"""AdaptiveAttention, trained with cross-entropy: each word looks at the image, or at what is known already.

Lu et al., Knowing When to Look: Adaptive Attention via a Visual Sentinel for Image Captioning, CVPR 2017:

    v_i = ReLU(W_a f_i),   v^g = ReLU(W_b f̄)                      f: a region, f̄: the whole image
    x_t = [ReLU(W_e y_t); v^g],   h_t, m_t = LSTM(x_t, h_{t-1}, m_{t-1})
    α_t = softmax(z_t),   z_{i,t} = w_hᵀ tanh(W_v v_i + W_g h_t),   c_t = Σ_i α_{i,t} v_i         (6, 7, 8)
    s_t = σ(W_x x_t + W_h h_{t-1}) ⊙ tanh(m_t)                                                    (9, 10)
    ĉ_t = β_t s_t + (1 − β_t) c_t,   β_t = softmax([z_t; w_hᵀ tanh(W_s s_t + W_g h_t)])_last      (11, 12)
    p(y_{t+1} | y_1 … y_t) = softmax(W_p (ĉ_t + h_t))                                             (13)

    loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

The places of its words are those of α_t, in which the sentinel has no share. The base of Dai and Lin, NeurIPS 2017, who
cut captions at 18 words. We depart from Lu et al. in looking at regions instead of a grid of 7 x 7, in not training the
network that makes them, and in the ReLU after W_e y, which `updown` has too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.adaptive import AdaptiveAttention, SentinelAttention
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import forced
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class Adaptive:
    hidden: int = 512  # size of v, h and s
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of w_h
    dropout: float = 0.5  # of words, regions and ĉ + h
    lr: float = 5e-4  # learning rate of Adam
    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs
    clip: float = 5.0  # largest norm of the gradient
    epochs: int = 30  # how often each image is seen
    patience: int = 0  # stop after so many epochs without a better CIDEr-D; 0: never
    batch: int = 16  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 18  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("patience",))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        attend = SentinelAttention(self.hidden, self.attention)
        sizes = (layout.whole, self.hidden, self.embed, self.dropout)
        return Parts(captioner=AdaptiveAttention(len(vocab), layout.dim, attend, *sizes))

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule = StepDecay(self.decay, self.decay_every)
        return [Stage("xe", self.xe, self.lr, self.epochs, ("captioner",), self.clip, schedule, patience=self.patience)]

    def xe(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"xe": cross_entropy(forced(m, batch).logp, batch.targets)}

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
