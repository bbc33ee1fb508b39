"""The papers in one captioner: a phrase grounder teaches its attention, and it learns to tell images apart.

 1. The captioner is that of `distributed` (Chen et al., MM 2021) on the grounding-aware encoding of `updown_aware`:
    K attentions take turns, vote for the word, and point to the union of what they chose. K is 1 unless asked.
 2. Its first attention follows a guide at nouns (Zhou et al., CVPR 2020, eq. 15). The guide is the phrase grounder of
    `two_branch` (Wang et al., CVPR 2021) or a matcher: both have learned from captions alone.

      loss = 1/K Σ_k  −log p_k(y*_t | y*_1 … y*_{t-1})  +  λ1 1[y*_t is a noun] KL(α_t ‖ a^1_t)

    α: attention of the guide.  a^1: of the first branch, which alone sees every region; the others learn from words.

 3. Contrastive learning (Dai and Lin, NeurIPS 2017, eq. 10) against what was learned so far, with the same KL, for
    `contrast` epochs: captions that fit their own image alone name more kinds of things.
 4. Self-critical training (`scst`) with the guide as reward model:  r(y) = CIDEr-D(y) + λ2 S(I, y),  for `scst_epochs`
    epochs, none unless asked. A grounder rates phrases, not sentences, hence the small λ2; it was not tuned.

Each stage starts from the best weights of the one before it. `docs/results.md` has what was measured: 2 helps most; 3
helps captions, and grounding where a grounder looks again; 1 helps without a guide, and with one takes more time than
it gains; 4 makes CIDEr-D greater, and captions more alike. Where boxes matter more than the captioner's own attention,
`groundling caption --grounder` lets the grounder look again at what was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from groundling.errors import GroundlingError
from groundling.recipes import TrainingContext, _config
from groundling.recipes._teachers import teacher
from groundling.recipes.contrastive import Contrastive
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.scst import Scst
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.stages import Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class Groundling:
    guide: str = ""  # run of the grounder or matcher that teaches the attention and judges the captions
    lam1: float = 0.1  # weight of KL(guide ‖ first branch)
    lam2: float = 0.1  # weight of the guide's score in the reward
    branches: int = 1  # K, how many attentions take turns
    hidden: int = 512  # size of v, h1 and h2
    embed: int = 300  # size of a word's embedding
    attention: int = 256  # size of the space in which regions and h1 are compared
    location: int = 64  # size of the embedding of a region's place
    dropout: float = 0.5  # of words, regions and h2
    lr: float = 5e-4  # learning rate of Adam
    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs, of all stages before the last together
    clip: float = 5.0  # largest norm of the gradient
    warmup_epochs: int = 12  # epochs with one attention alone; 0 to go on with a trained captioner (--start)
    epochs: int = 3  # epochs with all of them
    contrast: int = 1  # epochs of contrastive learning after that
    contrast_lr: float = 5e-5  # learning rate of these
    sets: int = 2  # captions of other images for every true one in these
    scst_epochs: int = 0  # epochs of self-critical training
    scst_lr: float = 5e-5  # learning rate of these
    samples: int = 5  # captions drawn for each image in these
    patience: int = 0  # stop a stage after so many epochs without a better CIDEr-D; 0: never
    batch: int = 32  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout",), zero=("warmup_epochs", "contrast", "scst_epochs", "patience"))

    def told(self) -> MultiBranch:
        """The stages that learn from true captions alone."""
        return MultiBranch(
            branches=self.branches,
            guide=self.guide,
            lam1=self.lam1,
            hidden=self.hidden,
            embed=self.embed,
            attention=self.attention,
            location=self.location,
            dropout=self.dropout,
            lr=self.lr,
            decay=self.decay,
            decay_every=self.decay_every,
            clip=self.clip,
            warmup_epochs=self.warmup_epochs,
            epochs=self.epochs,
            patience=self.patience,
        )

    def contrasted(self) -> Contrastive:
        return Contrastive(
            guide=self.guide,
            lam1=self.lam1,
            sets=self.sets,
            lr=self.contrast_lr,
            clip=self.clip,
            epochs=self.contrast,
            patience=self.patience,
        )

    def rewarded(self) -> Scst:
        return Scst(
            reward_model=self.guide,
            lam2=self.lam2,
            baseline="others",
            samples=self.samples,
            lr=self.scst_lr,
            clip=self.clip,
            epochs=self.scst_epochs,
            patience=self.patience,
        )

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        return self.told().parts(vocab, layout, classes)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        if not self.guide:
            raise GroundlingError("name the run of a grounder or matcher: --guide RUN (`groundling train two_branch`)")
        names = ("guide", "reward_model") if self.scst_epochs else ("guide",)
        found = {name: teacher(self.guide, context) for name in names}  # a checkpoint holds no tensor twice
        if self.contrast:  # room for what was learned before
            found["earlier"] = self.parts(context.vocab, context.layout, context.classes).captioner
        return found

    def stages(self, context: TrainingContext) -> list[Stage]:
        contrasted = self.contrasted().stages(context) if self.contrast else []
        return [
            *self.told().stages(context),
            *contrasted,
            *(self.rewarded().stages(context) if self.scst_epochs else []),
        ]

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
