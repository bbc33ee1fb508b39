"""Up-Down whose attention follows that of an image-text matching model, at the nouns of captions.

Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020. The captioner is that of
`updown` (eq. 9 to 14). The first of its two stages, cross-entropy:

(15)  l1 = Σ_t  −log p(y*_t | y*_1 … y*_{t-1})  +  λ1 1[y*_t is a noun] KL(β_t ‖ α_t)

β: attention of the captioner.  α: of the guide, a matcher that was trained before (`matcher_pos_scan`, or
`matcher_scan` to compare), is frozen, and leaves no trace in the model.  The second stage, eq. 17 to 19, is `scst`.

We depart from (15) as the authors' code does. It computes KL(α ‖ β); the direction that is printed is weighted by
`lam1_reverse` here. Both terms are means, over the words and over the nouns of the batch, instead of sums. A noun that
the guide does not place does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.models.attention import Additive
from groundling.models.encoders import Plain
from groundling.models.updown import UpDown
from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import forced
from groundling.recipes._teachers import guidance, teacher
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class PosScan:
    guide: str = ""  # run of the matcher whose attention is followed
    lam1: float = 0.1  # weight of KL(guide ‖ captioner), as in the authors' code
    lam1_reverse: float = 0.0  # weight of KL(captioner ‖ guide), as printed in eq. 15
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

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("patience",))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder = Plain(layout.dim, self.hidden, self.dropout)
        attend = Additive(self.hidden, self.attention)
        return Parts(captioner=UpDown(len(vocab), encoder, attend, self.hidden, self.embed, self.dropout))

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        if not self.guide:
            raise GroundlingError(
                "pos_scan follows a guide: name its run with --guide; `groundling train matcher_pos_scan` makes one"
            )
        return {"guide": teacher(self.guide, context)}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule = StepDecay(self.decay, self.decay_every)
        return [Stage("xe", self.xe, self.lr, self.epochs, ("captioner",), self.clip, schedule, patience=self.patience)]

    def xe(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        said = forced(m, batch)
        (alpha, nouns), beta = guidance(m.guide, batch), said.attn
        return {
            "xe": cross_entropy(said.logp, batch.targets),
            "look": self.lam1 * attention_kl(alpha, beta, nouns),
            "look reverse": self.lam1_reverse * attention_kl(beta, alpha, nouns),
        }

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
