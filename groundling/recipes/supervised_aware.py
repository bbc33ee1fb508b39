"""Up-Down with the grounding-aware encoding, its attention told where the words are: the upper bound beside cyclical.

The captioner and its training are those of `updown_aware` (Ma et al., ECCV 2020), the supervision of attention that of
`supervised` (Zhou et al., CVPR 2020, eq. 16):

      −log p(y*_t | y*_1 … y*_{t-1})
         + nll (−log Σ_i γ_ti β_ti)  +  kl KL(γ_t / Σ_i γ_ti ‖ β_t)  +  ce (−Σ_i γ_ti log β_ti)

γ_ti = 1 where region i has an IoU above 0.5 with a box of the word, else 0. So is the attention of the supervised
captioners trained that the papers on grounded captioning without boxes are compared with.

We depart from Ma et al., who also teach the classifiers W_c of regions by the boxes: here they learn from words alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from groundling.recipes import TrainingContext, _config
from groundling.recipes.supervised import Supervised
from groundling.recipes.updown_aware import UpdownAware
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.stages import Parts, Stage
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class SupervisedAware:
    nll: float = 0.1  # weight of −log of the attention on all true regions together
    kl: float = 0.0  # weight of the divergence from equal attention on the true regions
    ce: float = 0.0  # weight of −log of the attention on each true region
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

    uses_boxes: ClassVar[bool] = True
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("patience",))

    def plain(self) -> UpdownAware:
        """The same without supervision."""
        shared = {name: value for name, value in asdict(self).items() if name not in ("nll", "kl", "ce")}
        return UpdownAware(**shared)

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        return self.plain().parts(vocab, layout, classes)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        told = Supervised(nll=self.nll, kl=self.kl, ce=self.ce)
        return [replace(stage, losses=told.xe) for stage in self.plain().stages(context)]

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return self.plain().scores(m, batches, context, device)
