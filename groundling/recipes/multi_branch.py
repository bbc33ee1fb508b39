"""Distributed attention: K attentions choose different regions, vote for the word, and ground it in their union.

Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021. An attention that may choose any region likes
the most telling part of a thing (a face for "woman"). Here K attentions with weights of their own take turns, each
without the regions that those before it chose; the union of these regions covers the thing.

 (1)  h1_t = LSTM_1([v_g; e_{t-1}], h1_{t-1}),   e_{t-1} = W_e y_{t-1},   v_g: vector of the whole image
 (2)  z_{i,t} = W_a tanh(W_r r_i + W_h h1_t),   α_t = softmax(z_t)
 (3)  r_t = α_tᵀ R
 (4)  f_t = r_t + att_img(f_c)                          f_c: feature map of the image, where the regions have one
 (5)  h2_t = LSTM_2([h1_t; f_t], h2_{t-1}),   p(y_t | y_{1:t-1}) = softmax(W_o h2_t)
 (6)  L_CE = −Σ_t log p(y*_t | y*_{1:t-1})
 (7)  a^k_t = Attention_k(R^k, h1_t),   R^k = {r in R, r not in M^{k-1}},   M^{k-1}: chosen by branches 1 … k-1

Every branch predicts a word by (3) to (5), and (6) is the mean over the branches, first with one branch alone, then
with all. When captions are generated, the branches vote for the word, and its box is around the regions of the branches
that voted for it. `--eliminate 0` is the paper's table 3, `--branches 1` its baseline.

With a guide (the matcher of another run, as in `pos_scan`) the attention of the first branch, which sees all regions,
also follows that of the guide at nouns. The other branches learn from the words alone which further regions belong to
the thing:

      + λ1 KL(α_t ‖ a^1_t),   α: the guide's attention

The paper's: (1) to (7), sizes, batch, learning rate, the first 20 epochs with one branch. Its baseline is GVD (Zhou et
al., CVPR 2019), hence the encoding of regions (`updown_aware`) and its vocabulary of 8,639 words of Flickr30k.
The released code's (of GVD; the paper's own was not released): captions of 20 words, dropout of 0.5, h1_t in (2), where
the paper prints t-1. Its vocabulary are the words that occur more than 3 times in the captions of all splits.
Ours: `min_count` is 3, in the captions of the training split; the sums over t and k are means, so that the learning
rate need not change with K; how long all branches learn, and the norm at which the gradient is clipped. `--coupled` is
Up-Down's LSTM_1, which also gets h2_{t-1} (the mean of the branches').
"""

from dataclasses import dataclass, replace
from functools import partial

import torch

from groundling.models.layers import Additive
from groundling.models.multi_branch import MultiBranch as Captioner
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import ModelRecipe, TrainingContext
from groundling.recipes._captioning import aware, forced, word_columns
from groundling.recipes._settings import AwareSize, Batches, CaptionData, Count, Training
from groundling.recipes._teachers import followed, teacher
from groundling.recipes._types import Batch, Classes, Clock, GuidedParts, Layout, Parts, Stage, Tensor, Vocab, nn


class BranchParts(GuidedParts):
    captioner: Captioner


@dataclass(frozen=True, kw_only=True)
class MultiBranch(ModelRecipe):
    branches: int = 4  # K, how many attentions there are
    coupled: bool = False  # LSTM_1 also gets h2 of the word before, as in Up-Down; the paper's eq. 1 does not
    eliminate: bool = True  # a branch does not see what those before it chose; 0: it sees all regions
    guide: str = ""  # run of a matcher whose attention the first branch follows; none without it
    lam1: float = 0.1  # weight of KL(guide ‖ first branch)
    warmup_epochs: Count = 20  # epochs with the first branch alone; 0 to go on with a trained captioner (--start)
    size: AwareSize = AwareSize()
    batches: Batches = Batches(batch=64)
    data: CaptionData = CaptionData(length=20, min_count=3)
    training: Training = Training(epochs=20)  # epochs: with all branches · decay_every: epochs, of both stages together

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder, attend_grid = aware(self.size, layout, classes)
        captioner = Captioner(
            len(vocab),
            encoder,
            [Additive(self.size.hidden, self.size.attention) for _ in range(self.branches)],
            self.size.hidden,
            self.size.embed,
            self.size.dropout,
            attend_grid,
            eliminate=bool(self.eliminate),
            coupled=bool(self.coupled),
            word_columns=word_columns(vocab, layout) if self.size.word_link else None,
        )
        return Parts(captioner=captioner)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {"guide": teacher(self.guide, context)} if self.guide else {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        rate = self.training.schedule
        warmup = self.stage("warmup", partial(self.xe, 1), epochs=self.warmup_epochs)
        together = replace(
            self.stage("together", partial(self.xe, self.branches)),
            schedule=lambda epoch, scores: rate(self.warmup_epochs + epoch, scores),
        )
        return [warmup, together] if self.warmup_epochs else [together]

    def xe(self, branches: int, m: BranchParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        m.captioner.open(branches)
        decoded = forced(m, batch)
        terms = [cross_entropy(branch.logp, batch.targets) for branch in decoded.branches]
        losses = {"xe": torch.stack(terms).mean()}
        if self.guide:
            losses["attention"] = self.lam1 * followed(m.guide, batch, decoded.branches[0].attn)
        return losses
