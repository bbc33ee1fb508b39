"""What a recipe is: the settings that every recipe has, and the methods that training calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from groundling.errors import GroundlingError
from groundling.recipes._settings import (
    AwareSize,
    Batches,
    BoxSupervision,
    CaptionData,
    MatcherSize,
    Share,
    Training,
    UpDownSize,
)
from groundling.training.schedules import Plateau, StepDecay
from groundling.types import Fingerprint, Score, Vocab

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from groundling.data.dataset import Dataset
    from groundling.recipes._model import Model
    from groundling.recipes._parts import MatcherParts, UpDownParts
    from groundling.regions.records import Layout
    from groundling.tensors import Batch, Decoding
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary
    from groundling.training.stages import Clock, Losses, Parts, Stage

Setting: TypeAlias = int | float | str  # and bool, which is an int
R = TypeVar("R", bound="Recipe")


@dataclass(frozen=True)
class TrainingContext:
    """What a recipe may look at before it trains."""

    examples: Dataset  # the training split
    vocab: Vocabulary
    layout: Layout  # of the regions
    fingerprint: Fingerprint  # of the regions
    classes: Classes  # the words that get a box
    length: int = 16  # words of a caption; longer ones are cut
    validation_split: str = "val"  # name of the split that is scored
    start: Model | None = None  # the trained model that a fine-tune recipe goes on with, not yet trained further


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A way to train: a frozen dataclass of settings and of groups of them. One without `parts` goes on with a model.

    On the command line, in model.json and in `of` and `changed` settings have no groups: a name is used once.
    """

    batches: Batches = Batches()
    training: Training = Training()

    uses_boxes: ClassVar[bool] = False  # True: batches carry the true boxes; a supervised upper bound

    def __post_init__(self) -> None:
        from groundling.recipes._config import check

        check(self)
        self.validate()

    def validate(self) -> None:
        """GroundlingError where settings contradict each other; each by itself is in its range already."""

    @classmethod
    def of(cls: type[R], **settings: Any) -> R:
        """The recipe with these settings, whichever group they are in: `Updown.of(hidden=256, lr=1e-4)`."""
        return cls().changed(**settings)

    def changed(self: R, **settings: Any) -> R:
        """The same recipe with other values of these settings; TypeError if it has no such setting."""
        if unknown := sorted(settings.keys() - self.settings().keys()):
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(unknown)}")
        changed: R = _changed(self, settings)
        return changed

    def settings(self) -> dict[str, Setting]:
        """All settings by name, without groups."""
        return _flat(self)

    @property
    def boxes(self) -> BoxSupervision:
        """How true boxes are used, by a recipe with `uses_boxes`."""
        return BoxSupervision()

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        """Frozen modules, of other runs mostly, that are parts while it trains and leave no trace in the model."""
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]:
        raise NotImplementedError(f"{type(self).__name__} has no stages")

    def stage(
        self, name: str, losses: Losses, *trains: str, epochs: int | None = None, watch: str = "cider-d"
    ) -> Stage:
        """A stage with the settings of `training`, that trains the captioner unless other parts are named."""
        from groundling.training.stages import Stage

        training = self.training
        if training.patience and not watch:
            raise GroundlingError(
                f"the stage {name} keeps its last weights, whatever their score: leave out --patience"
            )
        return Stage(
            name,
            losses,
            lr=training.lr,
            epochs=training.epochs if epochs is None else epochs,
            trains=trains or ("captioner",),
            clip=training.clip,
            clip_each=training.clip_each,
            schedule=training.schedule,
            watch="" if training.keep_last else watch,
            patience=training.patience,
            average=training.average,
        )

    def scores(self, m: Any, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        """After each epoch, on batches of the split `context.validation_split` with one caption of each image.

        Unless a recipe says otherwise, CIDEr-D of the greedy captions.
        """
        from groundling.training.validate import caption_scores

        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)


@dataclass(frozen=True, kw_only=True)
class ModelRecipe(Recipe):
    """With modules of its own."""

    data: CaptionData = CaptionData()

    saved_modules: ClassVar[tuple[str, ...]] = ("captioner",)  # the parts that are saved; the first is always there

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        raise NotImplementedError(f"{type(self).__name__} makes no modules")


@dataclass(frozen=True, kw_only=True)
class CrossEntropyRecipe(ModelRecipe):
    """A captioner that learns in one stage: −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch."""

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("xe", self.xe)]

    def xe(self, m: Any, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        from groundling.objectives.cross_entropy import cross_entropy
        from groundling.recipes._captioning import forced

        return {"xe": cross_entropy(forced(m, batch).logp, batch.targets)}


@dataclass(frozen=True, kw_only=True)
class UpDownRecipe(CrossEntropyRecipe):
    """Up-Down on plain regions, with the sizes and the training of Zhou et al. (CVPR 2020)."""

    size: UpDownSize = UpDownSize()
    data: CaptionData = CaptionData(regions_per_image=36)
    sampling: Share = (
        0.0  # scheduled sampling: share of words that the model predicts itself; + 0.05 every 5 epochs, up to this
    )

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        from groundling.recipes._captioning import build_updown
        from groundling.training.stages import Parts

        return Parts(captioner=build_updown(self.size, vocab, layout))

    def decoded(self, m: UpDownParts, batch: Batch, clock: Clock) -> Decoding:
        """The captions of a batch, scored by teacher forcing with scheduled sampling."""
        from groundling.recipes._captioning import sampled

        return sampled(m, batch, self.sampling, clock)

    def xe(self, m: Any, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        from groundling.objectives.cross_entropy import cross_entropy

        return {"xe": cross_entropy(self.decoded(m, batch, clock).logp, batch.targets)}


@dataclass(frozen=True, kw_only=True)
class AwareRecipe(CrossEntropyRecipe):
    """Up-Down with grounding-aware regions, with the sizes and the training of Ma et al. (ECCV 2020)."""

    size: AwareSize = AwareSize()
    batches: Batches = Batches(batch=32)
    training: Training = Training(lr=1e-4, epochs=80, patience=10, schedule=Plateau())

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        from groundling.recipes._captioning import build_aware_updown
        from groundling.training.stages import Parts

        return Parts(captioner=build_aware_updown(self.size, vocab, layout, classes))


@dataclass(frozen=True, kw_only=True)
class MatcherRecipe(ModelRecipe):
    """An image-text matcher: one stage, with the hardest rivals of the batch; scored by retrieval.

    Sizes and training are those of Lee et al. (ECCV 2018).
    """

    size: MatcherSize = MatcherSize()
    batches: Batches = Batches(batch=128, captions_per_image=1)
    data: CaptionData = CaptionData(length=50, regions_per_image=36)
    training: Training = Training(lr=2e-4, clip=2.0, epochs=150, schedule=StepDecay(decay=0.1, decay_every=75))

    saved_modules: ClassVar[tuple[str, ...]] = ("matcher",)

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("match", self.match, "matcher", watch="rsum")]

    def match(self, m: MatcherParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        from groundling.recipes._matching import hardest_triplet

        return {"triplet": hardest_triplet(m.matcher, batch, self.size.margin)}

    def scores(self, m: Any, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        """R@1, 5 and 10 both ways."""
        from groundling.recipes._matching import retrieval_scores

        return retrieval_scores(m.matcher, batches, device, context.validation_split)


def _flat(group: Any) -> dict[str, Setting]:
    flat: dict[str, Setting] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        flat |= _flat(value) if is_dataclass(value) else {field.name: value}
    return flat


def _changed(group: Any, settings: Mapping[str, Any]) -> Any:
    """Groups before the recipe that holds them, so that it checks them all at once."""
    new = {}
    for field in fields(group):
        value = getattr(group, field.name)
        if is_dataclass(value):
            new[field.name] = _changed(value, settings)
        elif field.name in settings:
            new[field.name] = settings[field.name]
    return replace(group, **new)
