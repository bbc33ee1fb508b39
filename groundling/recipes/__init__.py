"""One paper per file, and models that were trained by them. The only place where everything meets.

A recipe is a frozen dataclass: its fields are the knobs (`groundling train` makes a flag of each, its comment being
the help), `parts` its modules, `stages` how they learn. A model on disk is weights and the recipe's name and fields.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from groundling.errors import DataError, GroundlingError
from groundling.types import Fingerprint, Score, Vocab

if TYPE_CHECKING:
    from groundling.regions.records import Layout
    from groundling.tensors import Captioner
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary
    from groundling.train.stages import Parts, Stage

RECIPES = {"updown": "Updown", "updown_aware": "UpdownAware"}  # module -> class; imported by `recipe_class`

WEIGHTS, ABOUT = "model.safetensors", "model.json"
FORMAT = 1


class Recipe(Protocol):
    """What every recipe has; most have more."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    uses_boxes: ClassVar[bool]  # True: batches carry the truth; a supervised upper bound

    @property
    def batch(self) -> int: ...
    @property
    def captions_per_image(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def min_count(self) -> int: ...
    @property
    def regions_per_image(self) -> int: ...

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts: ...

    def stages(self) -> list[Stage]: ...


@dataclass(frozen=True)
class Model:
    """A trained model and all that is needed to use it."""

    recipe: Recipe
    parts: Parts  # in eval mode
    vocab: Vocabulary
    fingerprint: Fingerprint  # of the regions that it was trained on, and needs
    layout: Layout  # of these regions
    groundable: Classes  # the words that get a box
    scores: tuple[Score, ...] = ()  # on the validation split, when it was kept

    @property
    def captioner(self) -> Captioner:
        captioner: Captioner = self.parts.captioner
        return captioner

    @property
    def length(self) -> int:
        """Tokens of its longest captions: the words that it was trained with, and EOS."""
        return self.recipe.length + 1


def recipe_class(name: str) -> type[Recipe]:
    if name not in RECIPES:
        raise GroundlingError(f"unknown recipe {name!r}; there are {', '.join(RECIPES)}")
    found: type[Recipe] = getattr(importlib.import_module(f"{__name__}.{name}"), RECIPES[name])
    return found


def recipe_name(recipe: Recipe) -> str:
    return next(name for name, of in RECIPES.items() if of == type(recipe).__name__)


def save(folder: Path, model: Model) -> None:
    """Write `model.safetensors` and `model.json`: what inference needs and nothing else."""
    from groundling.regions import fingerprints
    from groundling.train.checkpoint import atomic, write

    about = {
        "format": FORMAT,
        "recipe": recipe_name(model.recipe),
        "fields": asdict(model.recipe),
        "fingerprint": fingerprints.to_json(model.fingerprint),
        "layout": asdict(model.layout),
        "scores": [asdict(score) for score in model.scores],
        "groundable": model.groundable.to_json(),
        "vocab": model.vocab.to_json(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / WEIGHTS, model.parts.state_dict(), {"recipe": about["recipe"]})
    with atomic(folder / ABOUT) as file:
        file.write(json.dumps(about, ensure_ascii=False, indent=1).encode())


def load(folder: Path | str) -> Model:
    """The model that `groundling train --out` left in a folder, on the CPU; DataError if it is not whole."""
    from groundling.train.checkpoint import read

    folder = Path(folder)
    if not (folder / ABOUT).exists():
        raise DataError(f"no model in {folder}: {ABOUT} is missing; train one with `groundling train`")
    model = _described(folder / ABOUT)
    weights, _ = read(folder / WEIGHTS)
    try:
        model.parts.load_state_dict(weights)
    except RuntimeError as error:
        raise DataError(f"{folder / WEIGHTS} is not of the run of its {ABOUT}: copy both from one. {error}") from error
    model.parts.requires_grad_(False).eval()
    return model


def _described(path: Path) -> Model:
    """The model of which `model.json` speaks, its weights not yet those of the file."""
    from groundling.regions import fingerprints
    from groundling.regions.records import Layout
    from groundling.text.classes import Classes
    from groundling.text.vocab import Vocabulary

    try:
        about = json.loads(path.read_bytes())
        if about["format"] != FORMAT:
            raise DataError(f"it has format {about['format']!r}, this version reads {FORMAT}")
        recipe = recipe_class(about["recipe"])(**about["fields"])
        layout = Layout(**about["layout"] | {"grid": tuple(about["layout"]["grid"])})
        vocab, classes = Vocabulary.from_json(about["vocab"]), Classes.from_json(about["groundable"])
        scores = tuple(Score(**score) for score in about["scores"])
        fingerprint = fingerprints.from_json(about["fingerprint"])
        return Model(recipe, recipe.parts(vocab, layout, classes), vocab, fingerprint, layout, classes, scores)
    except GroundlingError as error:
        raise DataError(f"{path} does not describe a model: {error}") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} does not describe a model: {type(error).__name__}: {error}") from error
