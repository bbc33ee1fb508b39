"""Distributed attention: K attentions look at different regions, vote for the word, and point to all that they saw.

Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021. An attention that may choose any region likes
the most telling part of a thing (a face for "woman"). Here K attentions with weights of their own take turns, each
without the regions that those before it chose; the union of these regions covers the thing. The captioner is that of
`updown_aware` but for

 (7)  a^k_t = Attention_k(R^k, h1_t),   R^k = {r in R, r not in M^{k-1}},   M^{k-1}: chosen by branches 1 … k-1

and every branch says a word (eq. 3 to 5, models/multi_branch.py). Learned with cross-entropy on all of them,

      loss = 1/K Σ_k  −log p_k(y*_t | y*_1 … y*_{t-1}),   averaged over the words of the batch

first with one branch alone, then with all. When captions are made, the word that most branches say is said, and its box
is around the regions of the branches that say it. `eliminate 0` is the paper's table 3, `branches 1` its baseline.

With a guide (the matcher of another run, as in `pos_scan`) the attention of the first branch, which sees everything, is
also taught at nouns; where else the thing is, the others learn from the words alone:

      + λ1 KL(α_t ‖ a^1_t),   α: the guide's attention

We depart from the paper where it is silent or odd: the sum over k is a mean, so that the rate of learning need not
change with K; the query is h1_t (eq. 2 prints t-1), and LSTM_1 also hears h2_{t-1} as in Up-Down; how long all branches
learn, dropout, and the norm at which the gradient is clipped are not given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.attention import Additive
from groundling.models.multi_branch import MultiBranch as Captioner
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import aware, forced
from groundling.recipes._teachers import followed, teacher
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class MultiBranch:
    branches: int = 4  # K, how many attentions there are
    eliminate: int = 1  # 1: a branch does not see what those before it chose; 0: it sees all regions
    guide: str = ""  # run of a matcher whose attention the first branch follows; none without it
    lam1: float = 0.1  # weight of KL(guide ‖ first branch)
    hidden: int = 1024  # size of v, h1 and h2
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of the space in which regions and h1 are compared
    location: int = 300  # size of the embedding of a region's place
    dropout: float = 0.5  # of words, regions and h2
    lr: float = 5e-4  # learning rate of Adam
    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs, of both stages together
    clip: float = 5.0  # largest norm of the gradient
    warmup_epochs: int = 20  # epochs with the first branch alone; 0 to go on with a trained captioner (--start)
    epochs: int = 20  # epochs with all branches
    patience: int = 0  # stop a stage after so many epochs without a better CIDEr-D; 0: never
    batch: int = 64  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        _config.check(self, shares=("dropout", "eliminate"), zero=("patience", "warmup_epochs", "eliminate"))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder, attend_grid = aware(layout, classes, self.hidden, self.attention, self.location, self.dropout)
        captioner = Captioner(
            len(vocab),
            encoder,
            [Additive(self.hidden, self.attention) for _ in range(self.branches)],
            self.hidden,
            self.embed,
            self.dropout,
            attend_grid,
            eliminate=bool(self.eliminate),
        )
        return Parts(captioner=captioner)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {"guide": teacher(self.guide, context)} if self.guide else {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        warmup = Stage(
            "warmup",
            partial(self.xe, 1),
            lr=self.lr,
            epochs=self.warmup_epochs,
            trains=("captioner",),
            clip=self.clip,
            schedule=self.rate,
            patience=self.patience,
        )
        together = replace(
            warmup,
            name="together",
            losses=partial(self.xe, self.branches),
            epochs=self.epochs,
            schedule=lambda epoch, scores: self.rate(self.warmup_epochs + epoch, scores),
        )
        return [warmup, together] if self.warmup_epochs else [together]

    def rate(self, epoch: int, scores: Sequence[float]) -> float:
        return StepDecay(self.decay, self.decay_every)(epoch, scores)

    def xe(self, branches: int, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        m.captioner.open(branches)
        said = forced(m, batch)
        terms = [cross_entropy(branch.logp, batch.targets) for branch in said.branches]
        losses = {"xe": torch.stack(terms).mean()}
        if self.guide:
            losses["look"] = self.lam1 * followed(m.guide, batch, said.branches[0].attn)
        return losses

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
