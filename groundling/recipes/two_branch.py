"""Phrase grounding from image-caption pairs and a detector's labels: which region does a phrase mean?

Wang et al., Improving Weakly Supervised Visual Grounding by Contrastive Knowledge Distillation, CVPR 2021.

 (1)  s(x_l, y_k) = f(x_l)ᵀ g(y_k)
 (2)  S(X, Y) = Σ_k max_l s(x_l, y_k)
 (3)  p̂(x_l, y_k) ∝ Σ_z p(y_k, z) p(z | x_l) p(x_l)
 (4)  L_RP = −Σ_k Σ_l p̂(x_l, y_k) log ĥ(x_l, y_k),   ĥ = softmax over the regions of s / τ
 (5)  L_IS = −log h(X, Y),   h = softmax over the images of the batch of S / τ
 (6)  L = L_IS + λ L_RP,   λ = min(⌊step / a⌋, b)
 (7)  L_IS = Σ_{X' ≠ X} [m − S(X, Y) + S(X', Y)]₊,   in place of (5)

x: a region, p(x) the same for all.  y: a noun phrase of the caption.  z: a class of the detector.
f: features brought to mean 0 and deviation 1, two layers.  g: word vectors, an LSTM, the maximum over the words, two
layers.  The rows of the paper's Table 4:

  max margin      --nce 0 --distill 0 --ranking 1
  NCE             --distill 0
  Distill         --nce 0
  NCE + Distill   (as it is)

The paper's: (1) to (7), and this setting, which the rows of its tables have here:

  --hard --contrast 0.5 --tau 0.5 --sharpness 0 --stairs 200 --distill 3 --margin 0.05 --surroundings 0 --worn 0
  --joint 512 --hidden 300 --layers 2 --lr 1e-4 --captions-per-image 1 --embed 0 --vectors GLOVE --vector-size 300

There, too, the defaults stay for what the paper does not give: dropout, the number of epochs, the fall of the learning
rate, and `least_score`. `groundling ground --data DATA --argmax` chooses regions at test time as the paper does.

Ours, with the defaults as with the paper's setting: phrases are the noun phrases that the tagger finds, not those that
annotators marked; "a group of people" is one phrase. A phrase for which the detector sees nothing in (3) is left out of
(4). Words that occur less than twice are unknown; the paper knows the 13,000 most frequent. A word such as "crowd" is
taught by the box around all persons (`_pseudo_labels`). The last weights are kept: no score without boxes tells which
epoch grounds best, so none is taken while training, and `groundling ground --data` scores the result.

Ours, the defaults, which were better in trials on Flickr8k. The maximum of (2) is soft, τ' log mean exp(s / τ'), so
that all regions of a thing learn. p̂ is sharp, a softmax of (3) at `sharpness`. Where the detector has no class for
surroundings or for what people wear, `_pseudo_labels` derives their places from its boxes (`surroundings`, `worn`).

No detector is run at test time where the region source has none: `photos_searched` makes boxes and features without
one, and `--set detector=teacher` adds a detector's labels for training alone. In stores of other sources the features
may hold the detector's scores; nothing else of the detector is used afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from groundling.errors import GroundlingError
from groundling.models.grounder import Grounder, Phrases
from groundling.objectives.distill import distill, soft_labels
from groundling.objectives.max_margin import max_margin
from groundling.objectives.nce import nce
from groundling.recipes import ModelRecipe, TrainingContext
from groundling.recipes._pseudo_labels import PseudoLabels
from groundling.recipes._settings import Batches, CaptionData, Count, Share, StepDecay, Training
from groundling.recipes._types import Batch, Classes, Clock, Layout, Losses, Parts, Score, Stage, Tensor, Vocab
from groundling.text.vectors import read_vectors
from groundling.training.meta_init import in_meta_init
from groundling.training.parallel import gather, rank, world
from groundling.types import PAD


class GrounderParts(Parts):
    matcher: Grounder


@dataclass(frozen=True, kw_only=True)
class TwoBranch(ModelRecipe):
    nce: float = 1.0  # weight of (5)
    distill: float = 1.0  # b of (6), the last weight of (4); 0: no detector is needed
    ranking: float = 0.0  # weight of (7)
    stairs: Count = 0  # a of (6): λ grows by 1 every so many steps; 0: λ is b from the start
    margin: float = 0.1  # m of (7)
    contrast: float = 0.1  # τ of (5)
    softness: float = 0.05  # τ' of the soft maximum over regions
    hard: bool = False  # the maximum of (2) is hard, as printed
    tau: float = 0.0  # τ of (4); 0: the same as softness
    sharpness: float = 0.02  # temperature of p̂; 0: p̂ is (3) as printed, divided by its sum
    least_score: float = 0.1  # a phrase is taught by a detection if (3) of its best region is at least this
    surroundings: float = 0.15  # weight of labels that are derived for fields, water and streets; 0: none
    worn: float = 0.2  # weight of labels that are derived for clothing and parts of the body; 0: none
    joint: int = 256  # size of f and g; the paper takes 512
    embed: Count = 100  # size of a word's learned embedding; 0: only the vectors below
    vectors: str = ""  # word vectors beside it: a text file of GloVe or word2vec, or glove-6b-50d; empty: none
    vector_size: Count = 0  # size of these word vectors
    hidden: int = 200  # size of the LSTM; the paper takes 300
    layers: int = 1  # layers of the LSTM; the paper takes 2
    dropout: Share = 0.3  # dropout of words, phrases and regions; a third of it on the features
    batches: Batches = Batches(batch=32)
    data: CaptionData = CaptionData(length=40, min_count=2)
    training: Training = Training(lr=1e-3, epochs=6, schedule=StepDecay(decay=0.3))

    saved_modules: ClassVar[tuple[str, ...]] = ("matcher",)

    def validate(self) -> None:
        if not (self.nce or self.distill or self.ranking):
            raise GroundlingError("nce, distill and ranking are all 0: nothing would be learned")
        if bool(self.vectors) != bool(self.vector_size):
            raise GroundlingError("vectors and vector_size go together: name both, or neither")
        if not (self.embed or self.vectors):
            raise GroundlingError("a word needs numbers: embed above 0, or vectors")

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        of = vocab.encode(["of"])[0]
        matcher = Grounder(
            len(vocab),
            layout.dim,
            joint=self.joint,
            embed=self.embed,
            hidden=self.hidden,
            layers=self.layers,
            dropout=self.dropout,
            temperature=self.softness,
            hard=bool(self.hard),
            joiner=of if vocab.words[of] == "of" else PAD,
            nouns=getattr(vocab, "nouns", ()),
            vectors=self._vectors(vocab),
        )
        return Parts(matcher=matcher)

    def _vectors(self, vocab: Vocab) -> Tensor | None:
        """None without any; without memory where a model is loaded, whose weights hold them."""
        if not self.vectors:
            return None
        if in_meta_init():
            return torch.zeros(len(vocab), self.vector_size)
        return torch.from_numpy(read_vectors(self.vectors, vocab.words, self.vector_size))

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("ground", self.losses(context), "matcher")]

    def losses(self, context: TrainingContext) -> Losses:
        """Terms of (6) and (7), each weighted; only those that have a weight."""
        steps = -(-len(context.examples) // self.batches.batch)
        labels = context.fingerprint.labels
        if self.distill and not (labels and context.layout.labels):
            raise GroundlingError(
                f"distillation needs regions with a detector's labels; those of {context.fingerprint.name} have none. "
                "Train with --distill 0, or make regions with a detector"
            )
        pseudo = PseudoLabels.of(context.vocab.words, labels) if self.distill else None

        def terms(m: GrounderParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
            phrases = m.matcher.phrases_of(batch)
            v, y = m.matcher.encode_regions(batch.regions), m.matcher.encode_phrases(phrases.words)
            out: dict[str, Tensor] = {}
            if self.nce or self.ranking:
                scores, image_of = self.sentences(m.matcher, batch, phrases, v, y)
                if self.nce:
                    out["nce"] = self.nce * nce(scores, image_of, self.contrast)
                if self.ranking:
                    out["ranking"] = self.ranking * max_margin(scores, image_of, self.margin)
            if pseudo is not None:
                step = clock.epoch * steps + clock.step
                lam = min(step // self.stairs, self.distill) if self.stairs else self.distill
                out["distill"] = lam * self.taught(pseudo, batch, phrases, v, y)
            return out

        return terms

    def sentences(
        self, matcher: Grounder, batch: Batch, phrases: Phrases, v: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        """S (N', B') of the captions that have a phrase with the images of all processes, and the image of each."""
        frames = 1 + (int(batch.regions.frame.max()) if batch.regions.frame.numel() else 0)
        most = self.data.regions_per_image * int(gather(torch.tensor([frames], device=v.device)).max())
        short = max(0, most - v.shape[1]) if world() > 1 else 0  # all processes alike
        all_regions = gather(F.pad(v, (0, 0, 0, short)))
        valid = gather(F.pad(batch.regions.valid, (0, short)).float()) > 0
        before = int(gather(torch.tensor([len(v)], device=v.device))[: rank()].sum())
        scores = (y @ all_regions.flatten(0, 1).T).view(len(y), *valid.shape)  # (P, B', R)
        best = matcher.best(scores, valid)
        has_phrase = torch.bincount(phrases.caption, minlength=len(batch.tokens)) > 0
        total = best.new_zeros(len(batch.tokens), best.shape[1]).index_add(0, phrases.caption, best)
        return total[has_phrase], (batch.image_of + before)[has_phrase]

    def taught(self, pseudo: PseudoLabels, batch: Batch, phrases: Phrases, v: Tensor, y: Tensor) -> Tensor:
        """(4), of the phrases whose head noun has a class that the detector saw in the image."""
        image = batch.image_of[phrases.caption]
        label = pseudo.class_of.to(v.device)[heads(batch, phrases)]
        group = pseudo.groups.to(v.device)[phrases.words].any(-1)
        evidence = pseudo.evidence(batch.regions, image, label, group, self.surroundings, self.worn)
        seen = evidence.amax(-1) > torch.where(label >= 0, self.least_score, 0.0)
        valid = batch.regions.valid[image]
        scores = torch.einsum("prh,ph->pr", v[image], y)
        return distill(scores, soft_labels(evidence, valid, self.sharpness), valid, seen, self.tau or self.softness)

    def scores(
        self, m: GrounderParts, batches: Iterable[Batch], context: TrainingContext, device: torch.device
    ) -> list[Score]:
        return []


def heads(batch: Batch, phrases: Phrases) -> Tensor:
    """(P,) the last noun of each phrase, its last word where it has no noun ("one", "red"); ids of the vocabulary."""
    at = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    inside = (at >= phrases.start[:, None]) & (at < phrases.end[:, None]) & batch.nouns[phrases.caption]
    last = torch.where(inside.any(1), (inside * at).amax(1), phrases.end - 1)
    return batch.tokens[phrases.caption, last]
