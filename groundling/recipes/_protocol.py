"""What a recipe is: the methods that training calls, with what most recipes have in common already written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from groundling.types import Fingerprint, Score, Vocab

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from groundling.data.dataset import Dataset
    from groundling.recipes._model import Model
    from groundling.recipes._parts import MatcherParts
    from groundling.regions.records import Layout
    from groundling.tensors import Batch
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary
    from groundling.training.stages import Clock, Losses, Parts, Stage


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


class Recipe(Protocol):
    """A way to train: a frozen dataclass whose fields are its config. One without `parts` goes on with a model."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    uses_boxes: ClassVar[bool] = False  # True: batches carry the true boxes; a supervised upper bound

    def __post_init__(self) -> None:
        from groundling.recipes._config import check

        check(self)

    @property
    def batch(self) -> int: ...
    @property
    def captions_per_image(self) -> int: ...

    @property
    def merge_boxes(self) -> bool:
        """Whether the place of a word with several boxes is the box around them, as it is judged, or any one."""
        return True

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        """Frozen modules, of other runs mostly, that are parts while it trains and leave no trace in the model."""
        return {}

    def stages(self, context: TrainingContext) -> list[Stage]: ...

    def scores(self, m: Any, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        """After each epoch, on batches of the split `context.validation_split` with one caption of each image.

        Unless a recipe says otherwise, CIDEr-D of the greedy captions.
        """
        from groundling.training.validate import caption_scores

        return caption_scores(m.captioner, batches, context.length, device, context.validation_split)


class ModelRecipe(Recipe, Protocol):
    """With modules of its own."""

    saved_modules: ClassVar[tuple[str, ...]] = (
        "captioner",
    )  # the parts that are saved; without the first there is none

    @property
    def length(self) -> int: ...
    @property
    def min_count(self) -> int: ...
    @property
    def regions_per_image(self) -> int: ...

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts: ...


class CrossEntropyRecipe(ModelRecipe, Protocol):
    """A captioner that learns in one stage: −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch."""

    def stage(self, name: str, losses: Losses) -> Stage: ...

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("xe", self.xe)]

    def xe(self, m: Any, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        from groundling.objectives.cross_entropy import cross_entropy
        from groundling.recipes._captioning import forced

        return {"xe": cross_entropy(forced(m, batch).logp, batch.targets)}


class MatcherRecipe(ModelRecipe, Protocol):
    """An image-text matcher: one stage, with the hardest rivals of the batch; scored by retrieval."""

    saved_modules: ClassVar[tuple[str, ...]] = ("matcher",)

    @property
    def margin(self) -> float: ...

    def stage(self, name: str, losses: Losses, *trains: str, watch: str) -> Stage: ...

    def stages(self, context: TrainingContext) -> list[Stage]:
        return [self.stage("match", self.match, "matcher", watch="rsum")]

    def match(self, m: MatcherParts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
        from groundling.recipes._matching import hardest_triplet

        return {"triplet": hardest_triplet(m.matcher, batch, self.margin)}

    def scores(self, m: Any, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        """R@1, 5 and 10 both ways."""
        from groundling.recipes._matching import retrieval_scores

        return retrieval_scores(m.matcher, batches, device, context.validation_split)
