"""One paper per file, and models that were trained by them. The only place where everything meets.

A recipe is a frozen dataclass: its fields are its config (`groundling train` makes a flag of each, its comment being
the help), `parts` its modules, `stages` how they learn. A fine-tune recipe has no modules of its own: it goes on with
those of a trained model. A model on disk is weights and the names and fields of the recipes that made it.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard

from groundling.errors import DataError, GroundlingError
from groundling.types import Fingerprint, Score, Vocab

if TYPE_CHECKING:
    import torch
    from torch import nn

    from groundling.data.dataset import Dataset
    from groundling.regions.records import Layout
    from groundling.tensors import Batch, Captioner
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary
    from groundling.training.stages import Parts, Stage

logger = logging.getLogger(__name__)

OWN = Path(__file__).parent.parent / "weights"  # of the package
RECIPES = {  # module -> class; imported by `recipe_class`
    "groundling": "Groundling",
    "updown": "Updown",
    "updown_aware": "UpdownAware",
    "cyclical": "Cyclical",
    "pos_scan": "PosScan",
    "supervised": "Supervised",
    "supervised_aware": "SupervisedAware",
    "distill": "Distill",
    "scst": "Scst",
    "matcher_scan": "MatcherScan",
    "matcher_pos_scan": "MatcherPosScan",
    "neuraltalk": "Neuraltalk",
    "adaptive": "Adaptive",
    "contrastive": "Contrastive",
    "introspective": "Introspective",
    "gan": "Gan",
    "multi_branch": "MultiBranch",
    "multihead": "Multihead",
    "two_branch": "TwoBranch",
}

OLD_RECIPES = {"distributed": "multi_branch"}  # names in version 0.1; files with them are read
OLD_FIELDS = {  # recipe -> its fields that had another name in version 0.1
    "groundling": {"alone": "warmup_epochs", "finish": "scst_epochs", "finish_lr": "scst_lr"},
    "matcher_pos_scan": {"alone": "nouns_only"},
    "multi_branch": {"alone": "warmup_epochs"},
    "scst": {"judge": "reward_model"},
}
WEIGHTS, ABOUT = "model.safetensors", "model.json"
FORMAT = 1
CURE = "Copy the run again, or train it anew"  # of a description that cannot be used


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
    start: Model | None = None  # the trained model that a finish goes on with, not yet trained further


class Recipe(Protocol):
    """What every recipe has; most have more."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    uses_boxes: ClassVar[bool]  # True: batches carry the truth; a supervised upper bound

    @property
    def batch(self) -> int: ...
    @property
    def captions_per_image(self) -> int: ...

    def teachers(self, context: TrainingContext) -> dict[str, nn.Module]:
        """Frozen modules, of other runs mostly, that are parts while it trains and leave no trace in the model."""
        ...

    def stages(self, context: TrainingContext) -> list[Stage]: ...

    def scores(self, m: Parts, batches: Iterable[Batch], context: TrainingContext, device: torch.device) -> list[Score]:
        """After each epoch, on batches of the split `context.validation_split` with one caption of each image."""
        ...


class ModelRecipe(Recipe, Protocol):
    """With modules of its own."""

    saved_modules: ClassVar[tuple[str, ...]]  # the parts that a model needs when training is over

    @property
    def length(self) -> int: ...
    @property
    def min_count(self) -> int: ...
    @property
    def regions_per_image(self) -> int: ...

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts: ...


@dataclass(frozen=True)
class Model:
    """A trained model and all that is needed to use it."""

    recipe: ModelRecipe
    parts: Parts  # those that the recipe keeps; in eval mode
    vocab: Vocabulary
    fingerprint: Fingerprint  # of the regions that it was trained on, and needs
    layout: Layout  # of these regions
    groundable: Classes  # the words that get a box
    scores: tuple[Score, ...] = ()  # on the validation split, when it was kept
    fine_tuning: tuple[Recipe, ...] = ()  # what it was trained with afterwards

    @property
    def captioner(self) -> Captioner:
        if "captioner" not in self.recipe.saved_modules:
            raise GroundlingError(f"{recipe_name(self.recipe)} makes no captions; train a captioner, as updown is")
        captioner: Captioner = self.parts.captioner
        return captioner

    @property
    def length(self) -> int:
        """Tokens of its longest captions: the words that it was trained with, and EOS."""
        return self.recipe.length + 1


def recipe_class(name: str) -> type[Recipe]:
    name = OLD_RECIPES.get(name, name)
    if name not in RECIPES:
        raise GroundlingError(f"unknown recipe {name!r}; there are {', '.join(RECIPES)}")
    found: type[Recipe] = getattr(importlib.import_module(f"{__name__}.{name}"), RECIPES[name])
    return found


def renamed(recipe: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a recipe as a file of this version or of 0.1 names them, by the names of this version."""
    new = OLD_FIELDS.get(OLD_RECIPES.get(recipe, recipe), {})
    return {new.get(name, name): value for name, value in fields.items()}


def recipe_name(recipe: Recipe) -> str:
    return next(name for name, of in RECIPES.items() if of == type(recipe).__name__)


def builds_model(recipe: Recipe) -> TypeGuard[ModelRecipe]:
    """Whether it has modules of its own."""
    return hasattr(recipe, "parts")


def save(folder: Path, model: Model) -> None:
    """Write `model.safetensors` and `model.json`, what inference needs and nothing else, and their `manifest.json`."""
    from groundling.files import replace_files
    from groundling.regions import fingerprints
    from groundling.training.checkpoint import packed

    about = {
        "format": FORMAT,
        "recipe": recipe_name(model.recipe),
        "fields": asdict(model.recipe),
        "fine_tuning": [{"recipe": recipe_name(one), "fields": asdict(one)} for one in model.fine_tuning],
        "fingerprint": fingerprints.to_json(model.fingerprint),
        "layout": asdict(model.layout),
        "scores": [asdict(score) for score in model.scores],
        "groundable": model.groundable.to_json(),
        "vocab": model.vocab.to_json(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights = packed(kept(model).state_dict(), {"recipe": about["recipe"]})
    replace_files(folder, {WEIGHTS: weights, ABOUT: json.dumps(about, ensure_ascii=False, indent=1).encode()})


def kept(model: Model) -> Parts:
    """The parts that a model needs when training is over, without those that only helped."""
    from groundling.training.stages import Parts

    return Parts(**{name: getattr(model.parts, name) for name in model.recipe.saved_modules})


def load(folder: Path | str) -> Model:
    """The model that `groundling train --out` left in a folder, on the CPU; DataError if it is not whole.

    Every file must have the checksum that `manifest.json` has of it; a model without one, of an earlier version, is
    loaded, and that is told. The package's own weights must have one.
    """
    from groundling.files import check_manifest
    from groundling.training.checkpoint import read
    from groundling.training.meta_init import fill

    folder = Path(folder)
    if not (folder / ABOUT).exists():
        raise DataError(f"no model in {folder}: {ABOUT} is missing; train one with `groundling train`")
    if not check_manifest(folder, required=OWN in folder.resolve().parents):
        logger.info("%s has no manifest.json: whether its files are as they were written is not known", folder)
    model = _described(folder / ABOUT)
    weights, _ = read(folder / WEIGHTS)
    try:
        fill(model.parts, weights)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()  # below a heading, one line for each weight
        raise DataError(
            f"{folder / WEIGHTS} is not of the run of its {ABOUT}, or of another version: "
            f"copy both from one run, or train anew. {first}"
        ) from error
    for name, value in model.parts.state_dict().items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise DataError(f"{folder / WEIGHTS}: the weights {name} are not finite; train the model anew")
    model.parts.requires_grad_(False).eval()
    return model


def _described(path: Path) -> Model:
    """The model that `model.json` describes, without weights yet."""
    from groundling.files import read_bytes
    from groundling.regions import fingerprints
    from groundling.regions.records import Layout
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary
    from groundling.training.meta_init import MetaInit

    try:
        about = json.loads(read_bytes(path))
        if about["format"] != FORMAT:
            raise DataError(f"it has format {about['format']!r}, this version reads {FORMAT}")
        recipe = recipe_class(about["recipe"])(**renamed(about["recipe"], about["fields"]))
        if not builds_model(recipe):
            raise DataError(f"{about['recipe']} has no modules of its own")
        fine_tuning = tuple(
            _fine_tune_recipe(row["recipe"], row["fields"])
            for row in about.get("fine_tuning", about.get("finishes", ()))
        )
        layout = Layout(**about["layout"] | {"grid": tuple(about["layout"]["grid"])})
        vocab, classes = Vocabulary.from_json(about["vocab"]), Classes.from_json(about["groundable"])
        scores = tuple(Score(**score) for score in about["scores"])
        fingerprint = fingerprints.from_json(about["fingerprint"])
        with MetaInit():
            parts = recipe.parts(vocab, layout, classes)
        model = Model(recipe, parts, vocab, fingerprint, layout, classes, scores, fine_tuning)
        return replace(model, parts=kept(model))
    except GroundlingError as error:
        raise DataError(f"{path} does not describe a model: {error}. {CURE}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        told = str(error).partition("\n")[0]  # of torch, about sizes that no module can have
        raise DataError(f"{path} does not describe a model: {type(error).__name__}: {told}. {CURE}") from error


def _fine_tune_recipe(name: str, stored: dict[str, Any]) -> Recipe:
    """What a model was trained with afterwards, without fields that recipes of this version no longer have."""
    made = recipe_class(name)
    known = {field.name for field in fields(made)}
    return made(**{field: value for field, value in renamed(name, stored).items() if field in known})
