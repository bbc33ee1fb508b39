"""Multi-head attention in place of the attention of `updown_aware`: what distributed attention is compared with.

Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021, section 4.4: several heads look at the
regions (Vaswani et al. 2017), their findings are joined, and one word is said.

      β^h = softmax(q_hᵀ k_hi / √d),   v̂ = W_o [Σ_i β^1_i v_1i; …; Σ_i β^h_i v_hi],   q = W_q h1,  k = W_k v,  v = W_v v

      loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

A word's region is the one with the greatest mean weight of the heads. The paper tries 2 to 6 heads and finds 4 best; it
does not give their size. All else is as in `distributed`, whose two stages are as long as this one together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.models.multihead import MultiHead as Attention
from groundling.models.updown import UpDown
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import aware, forced
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class Multihead:
    heads: int = 4  # how many attentions share the regions
    hidden: int = 1024  # size of v, h1 and h2
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of q, k and v: all heads together
    location: int = 300  # size of the embedding of a region's place
    dropout: float = 0.5  # of words, regions and h2
    lr: float = 5e-4  # learning rate of Adam
    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs
    clip: float = 5.0  # largest norm of the gradient
    epochs: int = 40  # how often each image is seen
    patience: int = 0  # stop after so many epochs without a better CIDEr-D; 0: never
    batch: int = 64  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("patience",))
        if self.attention % self.heads:
            raise GroundlingError(f"attention must be a multiple of heads; got {self.attention} and {self.heads}")

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder, attend_grid = aware(layout, classes, self.hidden, self.attention, self.location, self.dropout)
        attend = Attention(self.hidden, self.attention, self.heads)
        captioner = UpDown(len(vocab), encoder, attend, self.hidden, self.embed, self.dropout, attend_grid)
        return Parts(captioner=captioner)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule = StepDecay(self.decay, self.decay_every)
        return [Stage("xe", self.xe, self.lr, self.epochs, ("captioner",), self.clip, schedule, patience=self.patience)]

    def xe(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"xe": cross_entropy(forced(m, batch).logp, batch.targets)}

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
