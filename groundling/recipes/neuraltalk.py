"""Neuraltalk2, trained with cross-entropy: a captioner without attention.

Karpathy and Fei-Fei, Deep Visual-Semantic Alignments for Generating Image Descriptions, CVPR 2015, in the form of its
second code, which follows Vinyals et al., Show and Tell, CVPR 2015:

    x_{-1} = W_I v + b_I,   x_t = W_e y_t           v: vector of the whole image, the mean of its regions if it has none
    h_t = LSTM(x_t, h_{t-1})
    p(y_{t+1} | y_1 … y_t) = softmax(W_o h_t + b_o)

    loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

It looks at no region, so its words get no boxes. The baseline of Dai and Lin, NeurIPS 2017, who cut captions at 18
words; we depart from both in not training the network that makes v.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.neuraltalk import Neuraltalk2
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
class Neuraltalk:
    hidden: int = 512  # size of h
    embed: int = 512  # size of x
    dropout: float = 0.5  # of words and h
    lr: float = 4e-4  # learning rate of Adam
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
        captioner = Neuraltalk2(len(vocab), layout.dim, layout.whole, self.hidden, self.embed, self.dropout)
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
