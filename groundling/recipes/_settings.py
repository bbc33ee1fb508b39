"""Groups of settings that recipes are composed of, each defined once: a recipe holds groups, and says what it changes.

    class Adaptive(CrossEntropyRecipe):
        size: UpDownSize = UpDownSize()  # hidden: size of v, h and s
        data: CaptionData = CaptionData(length=18)

Every field of every group becomes a flag of `groundling train` (`--hidden`, `--length`). Its comment is the help, its
type the range: see `_config.RANGES`. A comment after a group replaces the help of some of its fields: `# lr: of both
sides · epochs: of each`. No two groups of a recipe have a field of the same name, so that a flag has one meaning.
Nothing here imports torch, so that help is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from groundling.training.schedules import Constant as Constant
from groundling.training.schedules import Plateau as Plateau
from groundling.training.schedules import StepDecay as StepDecay

Share = Annotated[float, "from 0 to 1"]
Count = Annotated[int, "0 or more"]  # that of a field `int` is at least 1


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What a training batch holds."""

    batch: int = 16  # images in a batch
    captions_per_image: int = 5  # captions of each image
    consensus: bool = (
        False  # of each image, the `captions_per_image` that agree most with its others (CIDEr-D); 0: all take turns
    )


@dataclass(frozen=True, kw_only=True)
class CaptionData:
    """What a model with a vocabulary of its own sees of captions and images."""

    length: int = 16  # words of a caption; longer ones are cut
    min_count: int = 5  # words that are rarer than this in the training captions are unknown
    regions_per_image: int = 100  # most regions of an image, or of each frame of a clip: the first of the store


@dataclass(frozen=True, kw_only=True)
class Training:
    """How weights are learned: Adam, clipped gradients, a schedule of the learning rate, and when to stop."""

    lr: float = 5e-4  # learning rate of Adam
    clip: float = 5.0  # largest norm of the gradient
    clip_each: float = 0.0  # clip each element of the gradient at this value, not its norm; 0: clip the norm
    epochs: int = 30  # how often each image is seen
    keep_last: bool = False  # the last weights are the model, not those with the best score on the held-out images
    average: Share = (
        0.0  # score and keep a moving average of the weights, of which each step keeps this share; 0: the weights
    )
    patience: Count = 0  # stop a stage after so many epochs without a better score on the held-out images; 0: never
    schedule: Constant | StepDecay | Plateau = StepDecay()


@dataclass(frozen=True, kw_only=True)
class UpDownSize:
    """Sizes of an Up-Down captioner (Anderson et al., CVPR 2018) as Zhou et al. (CVPR 2020) set it up."""

    hidden: int = 512  # size of regions and of both LSTMs: v', h1 and h2; the paper takes 1024 for COCO
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of the space in which regions and h1 are compared (w_a)
    dropout: Share = 0.5  # dropout of words, regions and h2


@dataclass(frozen=True, kw_only=True)
class AwareSize:
    """Sizes of an Up-Down captioner with the grounding-aware region encoding of Ma et al. (ECCV 2020)."""

    hidden: int = 1024  # size of regions and of both LSTMs: v, h1 and h2
    embed: int = 512  # size of a word's embedding
    attention: int = 512  # size of the space in which regions and h1 are compared (w_a)
    dropout: Share = 0.5  # dropout of words, regions and h2
    location: int = 300  # size of the embedding of a region's place, W_l l
    image_map: bool = True  # attend to the feature map of the image beside its regions, where there is one; 0: do not
    image_vector: bool = True  # v_g is the source's vector of the whole image, where there is one; 0: the regions' mean
    word_link: bool = (
        False  # ours: add the image vector's scores of words to the logits; needs a source with words, as photos
    )


@dataclass(frozen=True, kw_only=True)
class MatcherSize:
    """Sizes and constants of the image-text matchers, as Lee et al. (ECCV 2018) give them."""

    hidden: int = 1024  # size of v and e
    embed: int = 300  # size of a word's embedding
    temperature: float = 9.0  # τ of eq. 5, the inverse temperature of the attention; at most 30
    margin: float = 0.2  # m of eq. 7


@dataclass(frozen=True, kw_only=True)
class BoxSupervision:
    """Weights of the forms in which boxes teach the attention; see `supervised`."""

    nll: float = 0.1  # weight of −log of the attention on the true region that fits best, as released
    kl: float = 0.0  # weight of the divergence from softmax(IoU / 0.5), as released
    ce: float = 0.0  # weight of −log of the attention on each true region, as printed in eq. 16
    nll_any: float = 0.0  # ours: weight of −log of the attention on all true regions together
    kl_any: float = 0.0  # ours: weight of the divergence from equal attention on the true regions
    merge_boxes: bool = (
        True  # the box of a word with several is the one around them, as evaluators take it; 0: any of them
    )
