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

We depart from (9) and from W_e y as the code that the papers build on does: each is followed by ReLU and dropout. The
paper gives neither the batch size, nor dropout, nor the norm at which the gradient is clipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.attention import Additive
from groundling.models.encoders import Plain
from groundling.models.updown import UpDown
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class Updown:
    hidden: int = 512  # size of v', h1 and h2; the paper takes 1024 for COCO
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of w_a, eq. 12
    dropout: float = 0.5  # of words, regions and h2
    sampling: float = 0.0  # scheduled sampling: share of own words fed back, 0.05 more every 5 epochs up to this
    lr: float = 5e-4  # learning rate of Adam
    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs
    clip: float = 5.0  # largest norm of the gradient
    epochs: int = 30  # how often each image is seen
    patience: int = 0  # stop after so many epochs without a better CIDEr-D; 0: never
    batch: int = 16  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 36  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout", "sampling"), zero=("patience",))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder = Plain(layout.dim, self.hidden, self.dropout)
        attend = Additive(self.hidden, self.attention)
        return Parts(captioner=UpDown(len(vocab), encoder, attend, self.hidden, self.embed, self.dropout))

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule = StepDecay(self.decay, self.decay_every)
        return [Stage("xe", self.xe, self.lr, self.epochs, ("captioner",), self.clip, schedule, patience=self.patience)]

    def xe(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        encoded = m.captioner.encode(batch.regions)[batch.image_of]
        sampling = min(self.sampling, 0.05 * (clock.epoch // 5))
        said = m.captioner(encoded, batch.inputs, batch.targets, sampling)
        return {"xe": cross_entropy(said.logp, batch.targets)}

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
