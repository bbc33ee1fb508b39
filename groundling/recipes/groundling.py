"""The papers in one captioner: a grounder guides its attention, and it learns to distinguish images.

 1. The captioner is that of `multi_branch` (Chen et al., MM 2021) on the grounding-aware encoding of `updown_aware`:
    K attentions take turns, vote for the word, and point to the union of what they chose. K is 1 unless asked.
 2. Its first attention follows a guide at nouns (Zhou et al., CVPR 2020, eq. 15). The guide is the phrase grounder of
    `two_branch` (Wang et al., CVPR 2021) or a matcher: both have learned from captions alone.

      loss = 1/K Σ_k  −log p_k(y*_t | y*_1 … y*_{t-1})  +  λ1 1[y*_t is a noun] KL(α_t ‖ a^1_t)

    α: attention of the guide.  a^1: of the first branch, which alone sees every region; the others learn from words.

 3. Contrastive learning (Dai and Lin, NeurIPS 2017, eq. 10) against what was learned so far, with the same KL, for
    `contrast` epochs: captions that fit their own image alone name more kinds of things.
 4. Self-critical training (`scst`) with the guide as reward model:  r(y) = CIDEr-D(y) + λ2 S(I, y),  and the same KL,
    for `scst_epochs` epochs, none unless asked. A grounder rates phrases, not sentences, hence the small λ2; it was
    not tuned.

Each stage starts from the best weights of the one before it; `groundling reproduce combine` measures what each adds.
Where boxes matter more than the captioner's own attention, `groundling caption --grounder` lets the grounder choose
the boxes of the words.
"""

from dataclasses import dataclass
from typing import Any

from groundling.recipes import ModelRecipe, TrainingContext
from groundling.recipes._settings import AwareSize, Batches, Count, Training
from groundling.recipes._teachers import teacher
from groundling.recipes._types import Classes, Layout, Parts, Stage, Vocab, nn
from groundling.recipes.contrastive import Contrastive
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.scst import Scst


@dataclass(frozen=True, kw_only=True)
class Groundling(ModelRecipe):
    guide: str = ""  # run of the grounder or matcher that guides the attention and rates the captions
    lam1: float = 0.1  # weight of KL(guide ‖ first branch)
    lam2: float = 0.1  # weight of the guide's score in the reward
    branches: int = 1  # K, how many attentions take turns
    coupled: bool = True  # LSTM_1 also gets h2 of the word before, as in Up-Down
    warmup_epochs: Count = 12  # epochs with one attention alone; 0 to go on with a trained captioner (--start)
    contrast: Count = 1  # epochs of contrastive learning after that
    contrast_lr: float = 5e-5  # learning rate of contrastive learning
    sets: int = 2  # captions of other images for every true one in contrastive learning
    scst_epochs: Count = 0  # epochs of self-critical training
    scst_lr: float = 5e-5  # learning rate of self-critical training
    samples: int = 5  # captions drawn for each image in self-critical training
    size: AwareSize = AwareSize(hidden=512, embed=300, attention=256, location=64)
    batches: Batches = Batches(batch=32)
    training: Training = Training(epochs=3)  # epochs: with all attentions · decay_every: epochs, of the first stages

    def captioning(self) -> MultiBranch:
        """The stages that learn from true captions alone."""
        return MultiBranch.of(**self._shared(MultiBranch))

    def contrasted(self) -> Contrastive:
        return Contrastive.of(**self._shared(Contrastive) | {"lr": self.contrast_lr, "epochs": self.contrast})

    def rewarded(self) -> Scst:
        own = {"reward_model": self.guide, "baseline": "others", "lr": self.scst_lr, "epochs": self.scst_epochs}
        own["captions_per_image"] = 1
        return Scst.of(**self._shared(Scst) | own)

    def _shared(self, recipe: type[MultiBranch | Contrastive | Scst]) -> dict[str, Any]:
        """The fields that this recipe has in common with another."""
        own = self.settings()
        return {name: own[name] for name in recipe().settings() if name in own}

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        return self.captioning().parts(vocab, layout, classes)

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        names = ("guide", "reward_model") if self.scst_epochs else ("guide",)
        teachers = {name: teacher(self.guide, context) for name in names}  # a checkpoint holds no tensor twice
        if self.contrast:  # room for what was learned before
            teachers["earlier"] = self.parts(context.vocab, context.layout, context.classes).get_submodule("captioner")
        return teachers

    def stages(self, context: TrainingContext) -> list[Stage]:
        contrasted = self.contrasted().stages(context) if self.contrast else []
        return [
            *self.captioning().stages(context),
            *contrasted,
            *(self.rewarded().stages(context) if self.scst_epochs else []),
        ]
