"""Ma et al., Learning to Generate Grounded Visual Captions without Localization Supervision, ECCV 2020.

Decode, localize what was said, reconstruct from what was localized, all with the weights of one captioner:

(2, 3)  h^L_t = LSTM([R α_t; h^A_t]),    y^d_t = argmax softmax(W_o h^L_t)         decoding, saying y* before
(6)     β_t = softmax((W_l e_t)ᵀ R),     e_t = W_e y^d_t,   r̂^l_t = R β_t          localization: the only new layer
(7)     h^L_t = LSTM([r̂^l_t; h^A_t]),    p(y^l_t) = softmax(W_o h^L_t)             reconstruction, saying y* before
(8)     L = −λ1 Σ_t log p(y^d_t = y*_t) − λ2 Σ_t log p(y^l_t = y*_t)

The captioner is `updown_aware` (section 3.1, appendix D) and is pre-trained alone for `pretrain` epochs. The words y^d
are leaves: no gradient goes through their choice. The localizer is not part of the saved model.

A video is an image whose regions are those of all its frames: α and β are over all of them. `regions_per_image` counts
them together, and a store has the first of every frame, then the second: 100 are the first 10 of each of 10 frames. The
paper's 100 of each frame are --regions-per-image 1000.

Variants of the paper, each a flag:
  --lam1 0.6 --lam2 0.4      Table 10; the final row of Table 1
  --others-loss 0            zero-loss (appendix B): only nouns and verbs are reconstructed
  --others-region 0          zero-representation (appendix B): r̂^l = 0 where the target is neither noun nor verb
  --layers 2                 Table 9: a multi-layer perceptron instead of W_l
  --consistency 1            Table 4: and KL(β_t ‖ α_t), which pulls the attention to the localized regions
  --of-hidden 1              Table 4: the localizer is asked with h^A_t of the reconstruction instead of e_t

Where the paper is silent: R is compared with W_l e_t in the space in which the attention compares it with h^A_t, as
the sizes of W_a and W_l suggest; a feature map is localized by the same words, as in the authors' code; β is the fixed
side of the consistency term; losses are means over words. We depart from (6) in the scale of W_l (see `Localizer`),
and from the authors' code for video, which shows the localizer only the frames that people annotated: here it sees all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from groundling.models.attention import Additive
from groundling.models.localizer import Localizer, perceptron
from groundling.models.updown import UpDown
from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import TrainingContext, _config
from groundling.recipes._captioning import aware, forced
from groundling.regions.records import Layout
from groundling.tensors import Batch, EncodedImage
from groundling.text.classes import Classes
from groundling.training.schedules import Plateau
from groundling.training.stages import Clock, Losses, Parts, Stage
from groundling.training.validate import caption_scores
from groundling.types import Score, Vocab


@dataclass(frozen=True)
class Cyclical:
    lam1: float = 0.5  # (8) weight of the decoding loss
    lam2: float = 0.5  # (8) weight of the reconstruction loss
    others_loss: float = 1.0  # weight in the reconstruction loss of words that are neither nouns nor verbs
    others_region: float = 1.0  # factor of the localized region of such words
    consistency: float = 0.0  # weight of KL(β ‖ α)
    layers: int = 1  # of the localizer; one is W_l of (6)
    of_hidden: int = 0  # 1: the localizer is asked with h^A instead of the word
    pretrain: int = 35  # epochs of the decoding loss alone; 0 with --start
    epochs: int = 45  # epochs of the cycle
    hidden: int = 1024  # size of v, h1 and h2
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of the space in which regions, h1 and words are compared
    location: int = 300  # size of W_l l
    dropout: float = 0.5  # of words, regions and h2
    lr: float = 1e-4  # learning rate of Adam, at the beginning of both stages
    decay: float = 0.1  # factor of the learning rate when CIDEr-D has not become better for `plateau` epochs
    plateau: int = 3  # epochs
    clip: float = 5.0  # largest norm of the gradient
    patience: int = 10  # end a stage after so many epochs without a better CIDEr-D; 0: never
    batch: int = 32  # images in a batch
    captions_per_image: int = 5  # captions of each of them
    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store

    uses_boxes: ClassVar[bool] = False
    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)

    def __post_init__(self) -> None:
        shares = ("others_loss", "others_region", "of_hidden", "dropout")
        _config.check(self, shares=shares, zero=("of_hidden", "pretrain", "patience"))

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        encoder, attend_grid = aware(layout, classes, self.hidden, self.attention, self.location, self.dropout)
        attend = Additive(self.hidden, self.attention)
        captioner = UpDown(len(vocab), encoder, attend, self.hidden, self.embed, self.dropout, attend_grid)
        ask = perceptron(self.hidden if self.of_hidden else self.embed, self.attention, self.layers)
        return Parts(captioner=captioner, localizer=Localizer(ask))

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        def stage(name: str, losses: Losses, epochs: int, *trains: str) -> Stage:
            schedule = Plateau(self.decay, self.plateau)
            return Stage(name, losses, self.lr, epochs, trains, self.clip, schedule, patience=self.patience)

        first = [stage("decode", self.decode, self.pretrain, "captioner")] if self.pretrain else []
        return [*first, stage("cycle", self.cycle, self.epochs, "captioner", "localizer")]

    def decode(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"decode": cross_entropy(forced(m, batch).logp, batch.targets)}

    def cycle(self, m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        encoded = m.captioner.encode(batch.regions)[batch.image_of]
        said = m.captioner(encoded, batch.inputs, batch.targets)
        e = m.captioner.words(said.guess).unbind(1)  # (6): T of (N, E); the ids are leaves
        visual = batch.visual[:, 1:]
        shown = torch.where(visual, 1.0, self.others_region).to(said.logp)  # (N, T)
        asked = torch.where(visual, 1.0, self.others_loss).to(said.logp)

        def localize(t: int, rows: Tensor, hidden: Tensor, here: EncodedImage) -> tuple[Tensor, Tensor]:
            query = hidden if self.of_hidden else e[t][rows]
            context, beta = m.localizer(query, here)
            if here.grid is not None:
                context = context + m.localizer(query, here.of_grid())[0]
            return context * shown[rows, t, None].to(context.dtype), beta

        again = m.captioner(encoded, batch.inputs, batch.targets, look=localize)  # (7)
        terms = {
            "decode": self.lam1 * cross_entropy(said.logp, batch.targets),
            "reconstruct": self.lam2 * cross_entropy(asked * again.logp, batch.targets),
        }
        if self.consistency:
            terms["consistency"] = self.consistency * attention_kl(again.attn.detach(), said.attn, said.real)
        return terms

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)
