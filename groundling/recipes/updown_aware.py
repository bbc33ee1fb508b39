"""Up-Down with the grounding-aware region encoding: what the regions are and where, not only how they look.

The baseline of Ma et al., Learning to Generate Grounded Visual Captions without Localization Supervision, ECCV 2020
(appendix D), after Zhou et al., Grounded Video Description, CVPR 2019. Captioner and loss are those of `updown`; a
region is

      v_i = W [f_i; softmax(W_cᵀ f_i); W_l l_i]

f_i: its feature.  W_c: classifiers of the object classes.  l_i: its normalised box.  The image vector and the feature
map of the region source are used where it gives them: the former instead of v̄, the latter attended like the regions
and added to v̂_t.

We depart from the paper in W_c, which is learned with the rest instead of taken from a classifier of Visual Genome.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.attention import Additive
from groundling.models.updown import UpDown
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import aware, forced
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import Plateau
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class UpdownAware:
    hidden: int = 1024  # size of v, h1 and h2
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of the space in which regions and h1 are compared
    location: int = 300  # size of W_l l
    dropout: float = 0.5  # of words, regions and h2
    lr: float = 1e-4  # learning rate of Adam
    decay: float = 0.1  # factor of the learning rate when CIDEr-D has not become better for `plateau` epochs
    plateau: int = 3  # epochs
    clip: float = 5.0  # largest norm of the gradient
    epochs: int = 80  # how often each image is seen
    patience: int = 10  # stop after so many epochs without a better CIDEr-D; 0: never
    batch: int = 32  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("patience",))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder, attend_grid = aware(layout, classes, self.hidden, self.attention, self.location, self.dropout)
        attend = Additive(self.hidden, self.attention)
        captioner = UpDown(len(vocab), encoder, attend, self.hidden, self.embed, self.dropout, attend_grid)
        return Parts(captioner=captioner)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        schedule = Plateau(self.decay, self.plateau)
        return [Stage("xe", self.xe, self.lr, self.epochs, ("captioner",), self.clip, schedule, patience=self.patience)]

    def xe(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"xe": cross_entropy(forced(m, batch).logp, batch.targets)}

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
