"""A captioning GAN: a captioner learns to write captions that an evaluator takes for those of people.

Dai et al., Towards Diverse and Natural Image Descriptions via a Conditional GAN, ICCV 2017; a baseline in table 4 of
Dai and Lin, NeurIPS 2017. Goes on with any trained captioner; the evaluator is new and leaves no trace in the model:

    r(I, S) = σ(⟨f(I), h(S)⟩)
    evaluator:  max  ln r(I, S_I) + α ln(1 − r(I, G(I))) + β ln(1 − r(I, S_other))
    captioner:  ∇ = (r(I, y) − r(I, ŷ)) ∇ln p(y)      y: drawn from the captioner,  ŷ: the greedy caption

S_I: a caption of the image, G(I): one drawn from the captioner, S_other: one of another image.

The paper's: r, and what the evaluator learns. Ours: captions differ by drawing words and not by a noise vector, since
the captioner is that of any other recipe; ŷ is the baseline of the policy gradient and whole captions are rewarded,
where the paper gives early feedback by rolling out each word. Both sides take a step on every batch. The last weights
are kept: CIDEr-D is not what is learned, and falls.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from groundling.models.evaluator import Evaluator
from groundling.objectives.contrastive import false_pairs, true_pairs
from groundling.objectives.reinforce import reinforce
from groundling.recipes import Recipe, TrainingContext
from groundling.recipes._mismatched import Mismatched
from groundling.recipes._settings import Constant, Training
from groundling.recipes._types import Batch, CaptionerParts, Clock, Losses, Stage, Tensor, nn
from groundling.recipes.scst import draw
from groundling.types import PAD


class GanParts(CaptionerParts):
    evaluator: Evaluator


@dataclass(frozen=True, kw_only=True)
class Gan(Recipe):
    alpha: float = 1.0  # weight of the captioner's captions in what the evaluator learns
    beta: float = 1.0  # weight of captions of other images
    hidden: int = 512  # size of f and h
    embed: int = 512  # size of the evaluator's words
    samples: int = 5  # captions drawn for each image
    training: Training = Training(lr=1e-4, schedule=Constant())  # lr: learning rate of Adam, for both sides

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        layout = context.layout
        return {"evaluator": Evaluator(len(context.vocab), layout.dim, layout.whole, self.hidden, self.embed)}

    def stages(self, context: TrainingContext) -> list[Stage]:
        losses = self.losses(Mismatched.of(context), context.length + 1)
        return [self.stage("gan", losses, "captioner", "evaluator", watch="")]

    def losses(self, others: Mismatched, length: int) -> Losses:
        def gan(m: GanParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
            own = torch.arange(len(batch.ids), device=batch.image_of.device)
            image_of = own.repeat_interleave(self.samples)
            encoded = m.captioner.eval().encode(batch.regions)
            drawn, greedy, logp = draw(m, encoded, length, self.samples, greedy=True)
            with torch.no_grad():
                rewards = m.evaluator(batch.regions, torch.cat([drawn, greedy]), torch.cat([image_of, own])).sigmoid()
            advantage = rewards[: len(drawn)] - rewards[len(drawn) :][image_of]
            learned = reinforce(logp, drawn, advantage)
            return self.evaluator(m, batch, drawn, image_of, others) | {"captioner": learned}

        return gan

    def evaluator(
        self, m: GanParts, batch: Batch, drawn: Tensor, image_of: Tensor, others: Mismatched
    ) -> dict[str, Tensor]:
        """What the evaluator learns from true, drawn and mismatched captions, in one pass."""
        wrong = others.draw([batch.ids[i] for i in batch.image_of.tolist()], 1)[:, 1:].to(drawn.device)
        size = max(words.shape[1] for words in (batch.targets, drawn, wrong))
        words = torch.cat([F.pad(w, (0, size - w.shape[1]), value=PAD) for w in (batch.targets, drawn, wrong)])
        logits = m.evaluator(batch.regions, words, torch.cat([batch.image_of, image_of, batch.image_of]))
        n, s = len(batch.tokens), len(drawn)
        return {
            "true": true_pairs(logits[:n]),
            "drawn": self.alpha * false_pairs(logits[n : n + s]),
            "false": self.beta * false_pairs(logits[n + s :]),
        }
