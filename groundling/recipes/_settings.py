"""Settings that recipes share, each defined once: a recipe names its groups, and changes what it must.

    class Updown(UpDownSize, CaptionData, SteppedAdam, CrossEntropyRecipe):
        regions_per_image: int = 36

Every field becomes a flag of `groundling train`. Its comment is the help, its type the range: see `_config.RANGES`. A
recipe that changes only the default leaves the comment out. Nothing here imports torch, so that help is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from groundling.training.schedules import Schedule
    from groundling.training.stages import Losses, Stage

Share = Annotated[float, "from 0 to 1"]
Count = Annotated[int, "0 or more"]  # that of a field `int` is at least 1


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What a training batch holds."""

    batch: int = 16  # images in a batch
    captions_per_image: int = 5  # captions of each image


@dataclass(frozen=True, kw_only=True)
class CaptionData(Batches):
    """What a model with words of its own sees of captions and images."""

    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # at most, the first of the store; of a clip so many of each frame


@dataclass(frozen=True, kw_only=True)
class Adam:
    """How weights are learned: Adam at one rate, with clipped gradients."""

    lr: float = 5e-4  # learning rate of Adam
    clip: float = 5.0  # largest norm of the gradient
    clip_each: float = 0.0  # clip each number of the gradient at this size instead of its norm; 0: clip the norm
    epochs: int = 30  # how often each image is seen
    keep_last: bool = False  # the last weights are the model, not those with the best score on the held-out images

    def schedule(self) -> Schedule:
        """The factor of `lr` in each epoch."""
        from groundling.training.schedules import constant

        return constant

    def stage(
        self, name: str, losses: Losses, *trains: str, epochs: int | None = None, watch: str = "cider-d"
    ) -> Stage:
        """A stage with these settings, that trains the captioner unless other parts are named."""
        from groundling.training.stages import Stage

        return Stage(
            name,
            losses,
            lr=self.lr,
            epochs=self.epochs if epochs is None else epochs,
            trains=trains or ("captioner",),
            clip=self.clip,
            clip_each=self.clip_each,
            schedule=self.schedule(),
            watch="" if self.keep_last else watch,
            patience=getattr(self, "patience", 0),
        )


@dataclass(frozen=True, kw_only=True)
class PatientAdam(Adam):
    """That stops early."""

    patience: Count = 0  # stop a stage after so many epochs without a better score on the held-out images; 0: never


@dataclass(frozen=True, kw_only=True)
class SteppedAdam(PatientAdam):
    """Whose rate falls in equal steps."""

    decay: float = 0.8  # factor of the learning rate every `decay_every` epochs
    decay_every: int = 3  # epochs between two steps of the learning rate

    def schedule(self) -> Schedule:
        from groundling.training.schedules import StepDecay

        return StepDecay(self.decay, self.decay_every)


@dataclass(frozen=True, kw_only=True)
class PlateauTraining(CaptionData, PatientAdam):
    """Data and training of Ma et al. (ECCV 2020): the rate falls when the score stays where it is."""

    lr: float = 1e-4
    epochs: int = 80
    patience: Count = 10
    batch: int = 32
    decay: float = 0.1  # factor of the learning rate when CIDEr-D has not become better for `plateau` epochs
    plateau: int = 3  # epochs without a better score after which the learning rate falls

    def schedule(self) -> Schedule:
        from groundling.training.schedules import Plateau

        return Plateau(self.decay, self.plateau)


@dataclass(frozen=True, kw_only=True)
class UpDownSize:
    """Sizes of an Up-Down captioner (Anderson et al., CVPR 2018) as Zhou et al. (CVPR 2020) set it up."""

    hidden: int = 512  # size of regions and of both LSTMs: v', h1 and h2; the paper takes 1024 for COCO
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of the space in which regions and h1 are compared (w_a)
    dropout: Share = 0.5  # dropout of words, regions and h2


@dataclass(frozen=True, kw_only=True)
class AwareSize(UpDownSize):
    """Sizes of an Up-Down captioner with the grounding-aware region encoding of Ma et al. (ECCV 2020)."""

    hidden: int = 1024  # size of regions and of both LSTMs: v, h1 and h2
    location: int = 300  # size of the embedding of a region's place, W_l l
    image_map: bool = True  # attend to the feature map of the image beside its regions, where there is one; 0: do not
    image_vector: bool = True  # v_g is the source's vector of the whole image, where there is one; 0: the regions' mean
    word_link: bool = False  # ours: logits get what the image vector says for words; needs one with words, as of photos


@dataclass(frozen=True, kw_only=True)
class UpDownTraining(UpDownSize, CaptionData, SteppedAdam):
    """Captioner, data and training of Zhou et al. (CVPR 2020)."""

    sampling: Share = 0.0  # scheduled sampling: share of own words fed back, 0.05 more every 5 epochs up to this
    regions_per_image: int = 36


@dataclass(frozen=True, kw_only=True)
class MatcherTraining(CaptionData, SteppedAdam):
    """Sizes and training of the image-text matchers, as Lee et al. (ECCV 2018) give them."""

    hidden: int = 1024  # size of v and e
    embed: int = 300  # size of a word's embedding
    temperature: float = 9.0  # τ of eq. 5, the inverse temperature of the attention; at most 30
    margin: float = 0.2  # m of eq. 7
    lr: float = 2e-4
    decay: float = 0.1
    decay_every: int = 75
    clip: float = 2.0
    epochs: int = 150
    batch: int = 128
    captions_per_image: int = 1
    length: int = 50
    regions_per_image: int = 36


@dataclass(frozen=True, kw_only=True)
class BoxSupervision:
    """Weights of the forms in which boxes teach the attention; see `supervised`."""

    nll: float = 0.1  # weight of −log of the attention on the true region that fits best, as released
    kl: float = 0.0  # weight of the divergence from softmax(IoU / 0.5), as released
    ce: float = 0.0  # weight of −log of the attention on each true region, as printed in eq. 16
    nll_any: float = 0.0  # ours: weight of −log of the attention on all true regions together
    kl_any: float = 0.0  # ours: weight of the divergence from equal attention on the true regions
    merge_boxes: bool = True  # the box of a word with several is the one around them, as it is judged; 0: any of them


@dataclass(frozen=True, kw_only=True)
class BranchTraining(AwareSize, CaptionData, SteppedAdam):
    """Captioner, data and training of Chen et al. (MM 2021), after Zhou et al. (GVD, CVPR 2019)."""

    coupled: bool = False  # LSTM_1 also gets h2 of the word before, as in Up-Down; the paper's eq. 1 does not
    batch: int = 64
    length: int = 20
    min_count: int = 3
