"""Up-Down whose attention is told where the words are: the upper bound of methods that learn it without boxes.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. The captioner is that of
`updown` (eq. 9 to 14), its attention β supervised by the boxes that people drew for the words of captions:

(16)  l1' = Σ_t  −log p(y*_t | y*_1 … y*_{t-1})  +  λ1' 1[y*_t is a noun] Σ_i −γ_ti log β_ti

γ_ti = 1 where region i has an IoU above 0.5 with a box of the word, else 0. The second term can also be, as in most of
the paper's tables, the negative log-likelihood −log Σ_i γ_ti β_ti, or the KL-divergence KL(γ_t / Σ_i γ_ti ‖ β_t).
Each form has its weight here: `ce`, `nll`, `kl`.

We depart from (16) as in `pos_scan`: the terms are means, over the words of the batch and over those that have a true
region. A phrase's boxes are those of its head where the data names one (ActivityNet-Entities does), else of each of its
nouns.
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
from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.attention_truth import attention_cross_entropy, attention_nll, uniform
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
class Supervised:
    nll: float = 0.1  # weight of −log of the attention on all true regions together
    kl: float = 0.0  # weight of the divergence from equal attention on the true regions
    ce: float = 0.0  # weight of −log of the attention on each true region, as printed in eq. 16
    hidden: int = 512  # size of v', h1 and h2; the paper takes 1024 for COCO
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of w_a, eq. 12
    dropout: float = 0.5  # of words, regions and h2
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

    uses_boxes: ClassVar[bool] = True
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("patience",))

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
        assert batch.gold is not None  # as declared: uses_boxes
        said = forced(m, batch)
        beta, gamma = said.attn, batch.gold[:, 1:]  # (N, T, R)
        return {
            "xe": cross_entropy(said.logp, batch.targets),
            "nll": self.nll * attention_nll(beta, gamma),
            "kl": self.kl * attention_kl(uniform(gamma), beta, gamma.any(-1)),
            "ce": self.ce * attention_cross_entropy(beta, gamma),
        }

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
