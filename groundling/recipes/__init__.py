"""One paper per file, and models that were trained by them. Recipes combine all other parts.

A recipe is a frozen dataclass: its fields are its config (`groundling train` makes a flag of each, its comment being
the help), `parts` its modules, `stages` how they learn. A fine-tune recipe has no modules of its own: it goes on with
those of a trained model. All that a recipe needs to be written, in this folder or in a file of one's own, is imported
from here: docs/tutorial-recipe.md writes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groundling.recipes._base import (
    AwareRecipe,
    CrossEntropyRecipe,
    MatcherRecipe,
    ModelRecipe,
    Recipe,
    TrainingContext,
    UpDownRecipe,
)
from groundling.recipes._model import (
    ABOUT,
    FORMAT,
    WEIGHTS,
    Model,
    builds_model,
    kept,
    load,
    read_weights,
    require_model,
    save,
)
from groundling.recipes._registry import OLD_FIELDS, OLD_RECIPES, RECIPES, recipe_class, recipe_name, renamed
from groundling.recipes._settings import (
    AwareSize,
    Batches,
    BoxSupervision,
    CaptionData,
    Count,
    MatcherSize,
    Share,
    Training,
    UpDownSize,
)
from groundling.training.schedules import Constant, Plateau, StepDecay
from groundling.types import Score, Vocab

if TYPE_CHECKING:
    from groundling.objectives.cross_entropy import cross_entropy
    from groundling.recipes._captioning import build_aware_updown, build_updown, forced, sampled
    from groundling.recipes._types import (
        Batch,
        CaptionerParts,
        Classes,
        Clock,
        GuidedParts,
        Layout,
        Losses,
        Parts,
        Stage,
        Tensor,
        UpDownParts,
    )

__all__ = [
    "ABOUT",
    "AwareRecipe",
    "AwareSize",
    "Batch",
    "Batches",
    "BoxSupervision",
    "CaptionData",
    "CaptionerParts",
    "Classes",
    "Clock",
    "Constant",
    "Count",
    "CrossEntropyRecipe",
    "FORMAT",
    "GuidedParts",
    "Layout",
    "Losses",
    "MatcherRecipe",
    "MatcherSize",
    "Model",
    "ModelRecipe",
    "OLD_FIELDS",
    "OLD_RECIPES",
    "Parts",
    "Plateau",
    "RECIPES",
    "Recipe",
    "Score",
    "Share",
    "Stage",
    "StepDecay",
    "Tensor",
    "Training",
    "TrainingContext",
    "UpDownParts",
    "UpDownRecipe",
    "UpDownSize",
    "Vocab",
    "WEIGHTS",
    "build_aware_updown",
    "build_updown",
    "builds_model",
    "cross_entropy",
    "forced",
    "kept",
    "load",
    "read_weights",
    "recipe_class",
    "recipe_name",
    "renamed",
    "sampled",
    "require_model",
    "save",
]
_HOME = {  # what needs torch is found on first use, so that help stays quick
    "objectives.cross_entropy": ("cross_entropy",),
    "recipes._captioning": ("build_aware_updown", "forced", "sampled", "build_updown"),
    "recipes._types": (
        *("Batch", "CaptionerParts", "Classes", "Clock", "GuidedParts", "Layout", "Losses", "Parts", "Stage", "Tensor"),
        "UpDownParts",
    ),
}

if not TYPE_CHECKING:  # else every name would be there for the type checker

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        for module, names in _HOME.items():
            if name in names:
                return getattr(import_module(f"groundling.{module}"), name)
        raise AttributeError(f"module 'groundling.recipes' has no attribute {name!r}")
