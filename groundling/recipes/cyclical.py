"""Cyclical training: decode a caption, localize its words, reconstruct it from their regions.

Ma et al., Learning to Generate Grounded Visual Captions without Localization Supervision, ECCV 2020.

Decode, localize the words, reconstruct from what was localized, all with the weights of one captioner:

(1)     h^A_t = LSTM([v_g; h^L_{t-1}; e_{t-1}]),   e_{t-1} = W_e y_{t-1}             v_g: vector of the whole image
(2, 3)  h^L_t = LSTM([R α_t; h^A_t]),    y^d_t = argmax softmax(W_o h^L_t)         decoding, after y*
(6)     β_t = softmax((W_l e_t)ᵀ R),     e_t = W_e y^d_t,   r̂^l_t = R β_t          localization: the only new layer
(7)     h^L_t = LSTM([r̂^l_t; h^A_t]),    p(y^l_t) = softmax(W_o h^L_t)             reconstruction, after y*
(8)     L = −λ1 Σ_t log p(y^d_t = y*_t) − λ2 Σ_t log p(y^l_t = y*_t)

The captioner is `updown_aware` (section 3.1, appendix D) and is pre-trained alone for `pretrain` epochs. The words y^d
are leaves: no gradient goes through their choice. Captions need no localizer; it is saved with the captioner, so that
`groundling score attention RUN --localizer` can tell whether it finds words better than the attention that learns from
it (section 4.4).

A video is an image whose regions are those of all its frames, as in the paper 100 of each: α and β are over all of
them.

Variants of the paper, each a flag:
  --lam1 0.6 --lam2 0.4      Table 10; the final row of Table 1
  --others-loss 0            zero-loss (appendix B): only nouns and verbs are reconstructed
  --others-region 0          zero-representation (appendix B): r̂^l = 0 where the target is neither noun nor verb
  --layers 2                 Table 9: a multi-layer perceptron instead of W_l
  --consistency 1            Table 4: and KL(β_t ‖ α_t), which pulls the attention to the localized regions
  --of-hidden 1              Table 4: the localizer is asked with h^A_t of the reconstruction instead of e_t

The paper's: (1) to (8) and the variants. The released code's: a feature map is localized by the same words.
Ours, where neither tells: R is compared with W_l e_t in the space in which the attention compares it with h^A_t, as
the sizes of W_a and W_l suggest; β is the fixed side of the consistency term; losses are means over words. And where we
depart: from (6) in the scale of W_l (see `Localizer`), from the released code for video in that the localizer sees all
frames, not only those that people annotated.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from groundling.models.localizer import Localizer, perceptron
from groundling.objectives.attention_kl import attention_kl
from groundling.objectives.cross_entropy import cross_entropy
from groundling.recipes import AwareRecipe, TrainingContext
from groundling.recipes._captioning import build_aware_updown, forced
from groundling.recipes._settings import AwareSize, Count, Plateau, Share, Training
from groundling.recipes._types import Batch, CaptionerParts, Classes, Clock, Layout, Parts, Stage, Tensor, UpDownParts
from groundling.tensors import Decoding, EncodedImage
from groundling.types import Vocab


class CycleParts(UpDownParts):
    localizer: Localizer


@dataclass(frozen=True, kw_only=True)
class Cyclical(AwareRecipe):
    lam1: float = 0.5  # (8) weight of the decoding loss
    lam2: float = 0.5  # (8) weight of the reconstruction loss
    others_loss: Share = 1.0  # weight in the reconstruction loss of words that are neither nouns nor verbs
    others_region: Share = 1.0  # factor of the localized region of such words
    consistency: float = 0.0  # weight of KL(β ‖ α)
    layers: int = 1  # layers of the localizer; one is W_l of (6)
    of_hidden: bool = False  # the localizer gets h^A instead of the word
    pretrain: Count = 35  # epochs of the decoding loss alone; 0 with --start
    size: AwareSize = AwareSize()  # attention: size of the space in which regions, h1 and words are compared
    training: Training = Training(
        lr=1e-4, epochs=45, patience=10, schedule=Plateau()
    )  # lr: learning rate of Adam, at the beginning of both stages · epochs: epochs of the cycle

    saved_modules: ClassVar[tuple[str, ...]] = ("captioner", "localizer")

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        captioner = build_aware_updown(self.size, vocab, layout, classes)
        ask = perceptron(self.size.hidden if self.of_hidden else self.size.embed, self.size.attention, self.layers)
        return Parts(captioner=captioner, localizer=Localizer(ask))

    def stages(self, context: TrainingContext) -> list[Stage]:
        first = [self.stage("decode", self.decode, epochs=self.pretrain)] if self.pretrain else []
        return [*first, self.stage("cycle", self.cycle, "captioner", "localizer")]

    def decode(self, m: CaptionerParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        return {"decode": cross_entropy(forced(m, batch).logp, batch.targets)}

    def cycle(self, m: CycleParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        encoded = m.captioner.encode(batch.regions)[batch.image_of]
        decoded: Decoding = m.captioner(encoded, batch.inputs, batch.targets)
        again = self.reconstruct(m, encoded, batch, decoded.guess)
        asked = torch.where(batch.visual[:, 1:], 1.0, self.others_loss).to(decoded.logp)  # (N, T)
        terms = {
            "decode": self.lam1 * cross_entropy(decoded.logp, batch.targets),
            "reconstruct": self.lam2 * cross_entropy(asked * again.logp, batch.targets),
        }
        if self.consistency:
            terms["consistency"] = self.consistency * attention_kl(again.attn.detach(), decoded.attn, decoded.real)
        return terms

    def reconstruct(self, m: CycleParts, encoded: EncodedImage, batch: Batch, words: Tensor) -> Decoding:
        """(6) and (7): the captions, seeing what the localizer finds for `words` (N, T); its attention is β."""
        e = m.captioner.words(words).unbind(1)  # T of (N, E); the ids are leaves
        shown = torch.where(batch.visual[:, 1:], 1.0, self.others_region).to(encoded.memory)  # (N, T)

        def localize(t: int, rows: Tensor, hidden: Tensor, here: EncodedImage) -> tuple[Tensor, Tensor]:
            query = hidden if self.of_hidden else e[t][rows]
            context, beta = m.localizer(query, here)
            if here.grid is not None:
                context = context + m.localizer(query, here.of_grid())[0]
            return context * shown[rows, t, None].to(context.dtype), beta

        again: Decoding = m.captioner(encoded, batch.inputs, batch.targets, attend_step=localize)
        return again
