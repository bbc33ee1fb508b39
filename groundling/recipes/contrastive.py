"""Contrastive learning: fine-tune a captioner so that its captions distinguish images.

Dai and Lin, Contrastive Learning for Image Captioning, NeurIPS 2017. Goes on with any trained captioner:

 (7)  G(c, I) = ln p_m(c | I) − ln p_n(c | I)           p_m learns; p_n is the reference, frozen
 (8)  h(c, I) = r_ν(G(c, I)),   r_ν(z) = 1 / (1 + ν exp(−z))
 (9)  L(X, Y) = Σ_X ln h(c, I) + Σ_Y ln(1 − h(c, I))    X: images with their captions, Y: with captions of others
(10)  J = 1/K · 1/|X| · Σ_k L(X, Y_k)                   K sets Y_k, drawn anew for every batch from all other images

    --negative 0               CL(P), the positive constraint alone
    --positive 0               CL(N), the negative constraint alone
    --reference RUN            a stronger captioner as reference, of the same words
    --replace-every 10         every 10 epochs the best target of these epochs becomes the reference (section 4.3)
    --guide RUN                ours: and λ1 KL(guide ‖ target) at the nouns of true pairs: a captioner that was taught
                               where to look (`distill`, `groundling`) does not forget it while it learns to differ

The best is that with the greatest CIDEr-D. CL(N) alone makes captions distinctive at its cost (table 4): there nothing
is chosen, and the last target is kept.

The paper's: (7) to (10), the learning rate, which is for batches of COCO, and the reference that is replaced.
Ours: dropout is off in the target as in the reference, so that G compares like with like; the size of a batch and the
epochs, which are not given; the guide.
"""

from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from groundling.errors import GroundlingError
from groundling.objectives.contrastive import false_pairs, true_pairs
from groundling.recipes import Model, Recipe, TrainingContext, load
from groundling.recipes._mismatched import Mismatched
from groundling.recipes._settings import Constant, Count, Training
from groundling.recipes._teachers import followed, guide_of
from groundling.recipes._types import Batch, Clock, GuidedParts, Losses, Stage, Tensor, nn
from groundling.regions import fingerprints
from groundling.tensors import Decoding, EncodedImage, Regions, TrainableCaptioner
from groundling.types import PAD


class ContrastedParts(GuidedParts):
    earlier: nn.Module
    reference: nn.Module


@dataclass(frozen=True, kw_only=True)
class Contrastive(Recipe):
    positive: float = 1.0  # weight of the true pairs in eq. 9
    negative: float = 1.0  # weight of the mismatched pairs
    nu: float = 1.0  # ν of eq. 8
    sets: int = 5  # K of eq. 10: mismatched captions for every true one
    reference: str = ""  # run of the reference; empty: the model to start from
    guide: str = ""  # run of the matcher or grounder whose attention the target goes on following; empty: none
    lam1: float = 0.1  # weight of KL(guide ‖ target)
    replace_every: Count = 0  # epochs after which the best target of them becomes the reference; 0: never
    training: Training = Training(lr=1e-6, schedule=Constant())

    def validate(self) -> None:
        if self.nu == 0 or not (self.positive or self.negative):
            raise GroundlingError("nu must be above 0, and positive or negative must be")

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        if context.start is None:
            raise GroundlingError("contrastive goes on with a trained captioner: name its run with --start")
        teachers: dict[str, nn.Module] = {}
        if self.replace_every or not self.reference:
            teachers["earlier"] = deepcopy(captioner_of(context.start))
        if self.reference:
            model = _stronger(self.reference, context)
            teachers["reference"] = Narrowed(captioner_of(model), model.recipe.data.regions_per_image)
        if self.guide:
            teachers["guide"] = guide_of(self.guide, context)
        return teachers

    def stages(self, context: TrainingContext) -> list[Stage]:
        """One for each reference: that of another run, then what was learned so far."""
        others, period = Mismatched.of(context), self.replace_every or self.training.epochs
        lengths = [min(period, self.training.epochs - done) for done in range(0, self.training.epochs, period)]
        return [
            self.stage(
                f"cl {number + 1}" if self.replace_every else "cl",
                self.losses(others, "earlier" if number or not self.reference else "reference"),
                epochs=epochs,
                watch="cider-d" if self.positive else "",
            )
            for number, epochs in enumerate(lengths)
        ]

    def losses(self, others: Mismatched, reference: str) -> Losses:
        """Eq. 10. `earlier` is the target before the first step of the stage; it is saved with the parts."""

        def cl(m: ContrastedParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
            if clock == Clock(0, 0) and reference == "earlier":
                m.earlier.load_state_dict(m.captioner.state_dict())
            ratio, attn = log_ratio(m.captioner.eval(), getattr(m, reference), batch, others, self.sets)
            n = len(batch.tokens)
            terms = {
                "true": self.positive * true_pairs(ratio[:n], self.nu),
                "false": self.negative * false_pairs(ratio[n:], self.nu),
            }
            if self.guide:
                terms["attention"] = self.lam1 * followed(m.guide, batch, attn)
            return terms

        return cl


def log_ratio(
    target: TrainableCaptioner, reference: TrainableCaptioner, batch: Batch, others: Mismatched, sets: int
) -> tuple[Tensor, Tensor]:
    """Eq. 7 for the N captions of a batch, then for `sets` of other images in place of each, (N + N * sets,).

    And the attention of the target, or of its first branch, at the former, (N, T, R).
    """
    n, image_of = len(batch.tokens), torch.cat([batch.image_of, batch.image_of.repeat_interleave(sets)])
    wrong = others.draw([batch.ids[i] for i in batch.image_of.tolist()], sets).to(image_of.device)
    size = max(batch.tokens.shape[1], wrong.shape[1])
    tokens = torch.cat([F.pad(t, (0, size - t.shape[1]), value=PAD) for t in (batch.tokens, wrong)])
    with torch.no_grad():
        reference_logp = logp(reference, batch, image_of, tokens)
    own = teacher_forced(target, batch, image_of, tokens)
    first = own.branches[0] if own.branches else own
    return own.logp.sum(1) - reference_logp, first.attn[:n, : batch.targets.shape[1]]


def logp(captioner: TrainableCaptioner, batch: Batch, image_of: Tensor, tokens: Tensor) -> Tensor:
    """ln p(c | I) of captions (N, T + 1) and their images (N,)."""
    return teacher_forced(captioner, batch, image_of, tokens).logp.sum(1)


def teacher_forced(captioner: TrainableCaptioner, batch: Batch, image_of: Tensor, tokens: Tensor) -> Decoding:
    encoded = captioner.encode(batch.regions)[image_of]
    return captioner(encoded, tokens[:, :-1], tokens[:, 1:])


class Narrowed(nn.Module):
    """A captioner that sees no more regions of an image than it was trained with."""

    def __init__(self, captioner: nn.Module, limit: int) -> None:
        super().__init__()
        self.captioner, self.limit = captioner, limit

    def encode(self, regions: Regions) -> EncodedImage:
        encoded: EncodedImage = self.captioner.encode(regions.of_each_frame(self.limit))  # type: ignore[operator]
        return encoded

    def forward(self, encoded: EncodedImage, inputs: Tensor, targets: Tensor) -> Decoding:
        decoded: Decoding = self.captioner(encoded, inputs, targets)
        return decoded


def captioner_of(model: Model) -> nn.Module:
    captioner = model.captioner
    assert isinstance(captioner, nn.Module)
    return captioner


def _stronger(folder: str, context: TrainingContext) -> Model:
    """The model of another run, if it has the same regions and the same vocabulary."""
    model = load(folder)
    fingerprints.require(context.fingerprint, model.fingerprint)
    if model.vocab.words != context.vocab.words:
        raise GroundlingError(
            f"the reference {folder} has {len(model.vocab)} words and the model to start from {len(context.vocab)}, or "
            "others: their log-probabilities cannot be compared. Train both with the same data and --min-count"
        )
    return model
