"""Self-critical training: fine-tune a captioner by the rewards of captions that it samples.

Rennie et al., Self-Critical Sequence Training for Image Captioning, CVPR 2017, with the reward of Zhou et al., More
Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020:

(17)  l2 = −E_{y ~ p} r(y)
(18)  ∇l2 ≈ −(r(y) − r(ŷ)) ∇log p(y)        y: a caption drawn from the captioner, ŷ: the greedy caption
(19)  r(y) = CIDEr-D(y) + λ2 S(I, y)

With --baseline others a caption is compared with the other drawn captions of its image instead of ŷ (Luo, A Better
Variant of Self-Critical Sequence Training, 2020; Kool et al., Buy 4 REINFORCE Samples, Get a Baseline for Free, 2019):

      r(y_i) − 1/(n − 1) Σ_{j ≠ i} r(y_j)

The mean of both estimates is the same. Where drawn captions are worth much less than greedy ones, as with a captioner
that has seen few photos, nearly all gains of (18) are below 0, and the second estimate is much less noisy.

S: score of the reward model, a matcher that was trained before (`matcher_scan`, `matcher_pos_scan`) and is frozen.
With --guide RUN, ours, λ1 KL(guide ‖ captioner) at the nouns of one true caption of each image is added: a captioner
that was taught where to attend (`distill`, `groundling`) does not forget it while it learns what is rewarded.

CIDEr-D is from 0 to 10, on word ids with the end as a word, with the document frequencies of the training captions.
BLEU-4 may be added, as the code that the papers build on allows.

The paper's: (17) to (19). The released code's: the mean over the words that were drawn, BLEU-4 as a reward.
Ours: captions are drawn without gradients; the gradients of log p(y) are computed afterwards, in less time (`draw`),
without PAD, BOS and UNK (else UNK, which is never drawn, would take what is taken from captions below the greedy
one). Dropout is off in both: with a draw of it for each, the captions would not be those of the p that is scored, the
mean of ∇log p would not be 0, and as the greedy caption is mostly better the captioner would unlearn its captions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from groundling import decoding
from groundling.errors import GroundlingError
from groundling.metrics.reward import BleuReward, CiderReward
from groundling.models.updown import Stepper, UpDown
from groundling.objectives.reinforce import reinforce
from groundling.recipes import Recipe, TrainingContext
from groundling.recipes._settings import Batches, Constant, Training
from groundling.recipes._teachers import followed, guide_of, teacher
from groundling.recipes._types import Batch, CaptionerParts, Clock, GuidedParts, Losses, Stage, Tensor, nn
from groundling.tensors import EncodedImage, Matcher
from groundling.types import BOS


class RewardedParts(GuidedParts):
    reward_model: Matcher


Reward = Callable[
    [RewardedParts, Batch, Tensor, Tensor], Tensor
]  # captions (N, T) of the images (N,) of a batch -> (N,)


@dataclass(frozen=True, kw_only=True)
class Scst(Recipe):
    reward_model: str = ""  # run of the matcher whose score is rewarded too; empty: none
    lam2: float = 1.0  # weight of its score, eq. 19
    bleu: float = 0.0  # weight of BLEU-4, from 0 to 1
    guide: str = ""  # run of the matcher or grounder whose attention the captioner goes on following; empty: none
    lam1: float = 0.1  # weight of KL(guide ‖ captioner)
    baseline: str = "greedy"  # what a drawn caption is compared with: greedy (eq. 18), or others that were drawn
    samples: int = 5  # captions drawn for each image
    batches: Batches = Batches(captions_per_image=1)  # captions_per_image: for the guide; the references are all
    training: Training = Training(lr=5e-5, epochs=80, schedule=Constant())

    def validate(self) -> None:
        if self.baseline not in ("greedy", "others"):
            raise GroundlingError(f"baseline must be greedy or others; got {self.baseline!r}")
        if self.baseline == "others" and self.samples < 2:
            raise GroundlingError("to compare a drawn caption with others, draw at least 2 of each image: --samples 2")

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        teachers = {"reward_model": teacher(self.reward_model, context)} if self.reward_model else {}
        return teachers | ({"guide": guide_of(self.guide, context)} if self.guide else {})

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("scst", self.losses(self.reward(context), context.length + 1))]

    def losses(self, reward: Reward, length: int) -> Losses:
        """Eq. 18, with several captions of each image, of at most `length` tokens."""

        def scst(m: RewardedParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
            own = torch.arange(len(batch.ids), device=batch.image_of.device)
            image_of = own.repeat_interleave(self.samples)
            encoded = m.captioner.eval().encode(batch.regions)
            drawn, greedy, logp = draw(m, encoded, length, self.samples, self.baseline == "greedy")
            rewards = reward(m, batch, torch.cat([drawn, greedy]), torch.cat([image_of, own[: len(greedy)]]))
            worth, expected = rewards[: len(drawn)], rewards[len(drawn) :]
            advantage = worth - (expected[image_of] if len(greedy) else mean_of_others(worth, self.samples))
            terms = {"scst": reinforce(logp, drawn, advantage)}
            if self.guide:
                terms["attention"] = self.lam1 * followed(m.guide, batch, attention(m, encoded, batch))
            return terms

        return scst

    def reward(self, context: TrainingContext) -> Reward:
        """Eq. 19; the references are made ready here, once."""
        captioned = [example for example in context.examples if any(caption.tokens for caption in example.captions)]
        number = {example.id: i for i, example in enumerate(captioned)}
        captions = [[context.vocab.encode(c.tokens) for c in example.captions if c.tokens] for example in captioned]
        cider, bleu = CiderReward(captions), BleuReward(captions) if self.bleu else None

        @torch.no_grad()
        def reward(m: RewardedParts, batch: Batch, words: Tensor, image_of: Tensor) -> Tensor:
            samples, image = words.cpu().numpy(), np.array([number[name] for name in batch.ids])[image_of.cpu().numpy()]
            rewards = cider(samples, image)
            if bleu is not None:
                rewards = rewards + self.bleu * bleu(samples, image)
            total = torch.from_numpy(rewards).to(words.device, torch.float32)
            return (
                total + self.lam2 * m.reward_model.rate(batch.regions, words, image_of) if self.reward_model else total
            )

        return reward


def mean_of_others(rewards: Tensor, samples: int) -> Tensor:
    """(N * samples,): the mean worth of the other captions of the same image."""
    each = rewards.view(-1, samples)
    return ((each.sum(1, keepdim=True) - each) / (samples - 1)).flatten()


def draw(
    m: CaptionerParts, encoded: EncodedImage, length: int, samples: int, greedy: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Of N images: `samples` drawn captions of each (N * samples, T), the greedy ones (N, T) or, unless asked for, none
    (0, T), and log p of the words that were drawn (N * samples, T). The captioner is in eval mode.
    """
    if isinstance(m.captioner, UpDown):
        stepper, rows = m.captioner.stepper(encoded, record=True)
        if isinstance(stepper, Stepper):
            tokens = decoding.draw_several(stepper, rows, length, samples, greedy)
            drawn, usual = tokens.tensor_split([len(encoded) * samples])
            return drawn, usual, stepper.log_likelihood(drawn)
    tokens = decoding.sample_several(m.captioner, encoded, length, samples, greedy)
    drawn, usual = tokens.tensor_split([len(encoded) * samples])
    image_of = torch.arange(len(encoded), device=tokens.device).repeat_interleave(samples)
    return drawn, usual, log_likelihood(m, encoded[image_of], drawn)


def log_likelihood(m: CaptionerParts, encoded: EncodedImage, words: Tensor) -> Tensor:
    """(N, T): log p of each word of captions (N, T), which end at EOS or PAD; PAD, BOS and UNK are left out of it."""
    before = torch.cat([torch.full_like(words[:, :1], BOS), words[:, :-1]], 1)
    return m.captioner(encoded, before, words, mask_special=True).logp


def attention(m: CaptionerParts, encoded: EncodedImage, batch: Batch) -> Tensor:
    """(N, T, R): where the captioner, or its first branch, attends at each word of the true captions of a batch."""
    decoded = m.captioner(encoded[batch.image_of], batch.inputs, batch.targets)
    return (decoded.branches[0] if decoded.branches else decoded).attn
