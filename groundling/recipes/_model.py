"""A trained model on disk: weights, and the names and fields of the recipes that made it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from groundling.errors import DataError, GroundlingError
from groundling.recipes._base import ModelRecipe, Recipe
from groundling.recipes._registry import recipe_class, recipe_name, renamed
from groundling.types import Fingerprint, Score

if TYPE_CHECKING:
    from torch import Tensor

    from groundling.regions.records import Layout
    from groundling.tensors import Captioner
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary
    from groundling.training.stages import Parts

logger = logging.getLogger(__name__)

OWN = Path(__file__).parent.parent / "weights"  # of the package
WEIGHTS, ABOUT = "model.safetensors", "model.json"
FORMAT = 1
CURE = "Copy the run again, or train it anew"  # of a description that cannot be used


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
        return self.recipe.data.length + 1

    @property
    def digest(self) -> str:
        """Which weights these are: the beginning of a hash of all of them."""
        from groundling.tensors import digest

        return digest(self.parts.state_dict())


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
        "fields": model.recipe.settings(),
        "fine_tuning": [{"recipe": recipe_name(one), "fields": one.settings()} for one in model.fine_tuning],
        "fingerprint": fingerprints.to_json(model.fingerprint),
        "layout": model.layout.to_json(),
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

    return Parts(**{name: part for name, part in model.parts.named_children() if name in model.recipe.saved_modules})


def require_model(folder: Path) -> None:
    """DataError where there is none in the folder."""
    if not (folder / ABOUT).exists():
        wrote = "name the folder that `groundling train` or `groundling adapt` wrote"
        raise DataError(f"no model in {folder}: {ABOUT} is missing; {wrote}")


def load(folder: Path | str) -> Model:
    """The model that `groundling train --out` left in a folder, on the CPU; DataError if it is not whole.

    Every file must have the checksum that `manifest.json` has of it; a model without one, of an earlier version, is
    loaded, with a message. The package's own weights must have one.
    """
    from groundling.files import check_manifest
    from groundling.training.meta_init import fill

    folder = Path(folder)
    require_model(folder)
    if not check_manifest(folder, OWN in folder.resolve().parents, (ABOUT, WEIGHTS)):
        logger.info("%s has no manifest.json of its model: whether its files are as written is not known", folder)
    model = _described(folder / ABOUT)
    weights, _ = read_weights(folder / WEIGHTS)
    model = replace(model, parts=_present(model, weights))
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


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """As `training.checkpoint.read`, with matrices in 8 bits unpacked to float32; DataError names the file."""
    from groundling.regions.eight_bits import unpacked
    from groundling.training.checkpoint import read

    stored, about = read(path)
    try:
        return unpacked(stored), about
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}. {CURE}") from error


def _present(model: Model, weights: Mapping[str, Tensor]) -> Parts:
    """The parts that the weights have: earlier versions did not save all that this one does."""
    from groundling.training.stages import Parts

    there = {name.partition(".")[0] for name in weights} | {model.recipe.saved_modules[0]}
    return Parts(**{name: part for name, part in model.parts.named_children() if name in there})


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
        recipe = recipe_class(about["recipe"]).of(**renamed(about["recipe"], about["fields"]))
        if not builds_model(recipe):
            raise DataError(f"{about['recipe']} has no modules of its own")
        fine_tuning = tuple(
            _fine_tune_recipe(row["recipe"], row["fields"])
            for row in about.get("fine_tuning", about.get("finishes", ()))
        )
        vocab, classes = Vocabulary.from_json(about["vocab"]), Classes.from_json(about["groundable"])
        scores = tuple(Score(**score) for score in about["scores"])
        fingerprint = fingerprints.from_json(about["fingerprint"])
        layout = Layout(**about["layout"] | {"grid": tuple(about["layout"]["grid"])}).of_source(fingerprint)
        with MetaInit():
            parts = recipe.parts(vocab, layout, classes)
        model = Model(recipe, parts, vocab, fingerprint, layout, classes, scores, fine_tuning)
        return replace(model, parts=kept(model))
    except GroundlingError as error:
        raise DataError(f"{path} does not describe a model: {error}. {CURE}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        cause = str(error).partition("\n")[0]  # of torch, about sizes that no module can have
        raise DataError(f"{path} does not describe a model: {type(error).__name__}: {cause}. {CURE}") from error


def _fine_tune_recipe(name: str, stored: dict[str, Any]) -> Recipe:
    """What a model was trained with afterwards, without fields that recipes of this version no longer have."""
    made = recipe_class(name)
    known = made().settings()
    return made.of(**{field: value for field, value in renamed(name, stored).items() if field in known})
