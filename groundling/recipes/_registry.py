"""Recipes by name: those of the package, of installed packages, and of files that the user names.

A model on disk names its recipe and never code: a recipe from outside is found only if a package that is installed
offers it (entry-point group `groundling.recipes`), or if the user named its file, on the command line of
`groundling train` or in the environment variable GROUNDLING_RECIPES.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.errors import GroundlingError

if TYPE_CHECKING:
    from groundling.recipes._base import Recipe

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
    "two_branch": {"heard": "least_score"},
}
_AWARE = {"image_map": True, "image_vector": True, "word_link": False}  # of recipes with grounding-aware regions
ABSENT: dict[str, dict[str, Any]] = {  # recipe -> fields that came later, and what models without them did
    "cyclical": _AWARE,
    "gan": {"patience": 0},
    "groundling": {"coupled": True} | _AWARE,
    "introspective": {"patience": 0},
    "multi_branch": {"coupled": True} | _AWARE,
    "multihead": {"coupled": True} | _AWARE,
    "pos_scan": {"sampling": 0.0},
    "scst": {"captions_per_image": 1},
    "supervised_aware": _AWARE,
    "updown_aware": _AWARE,
}
GROUP = "groundling.recipes"  # of entry points
VARIABLE = "GROUNDLING_RECIPES"  # files of recipes, separated as in PATH

files: dict[str, str] = {}  # paths as they were given -> name of the recipe there
_outside: dict[str, type[Recipe]] = {}  # recipes from files, by the file's name without .py


def recipe_class(name: str) -> type[Recipe]:
    """The recipe of this name; GroundlingError if there is none."""
    name = OLD_RECIPES.get(name, name)
    if name in RECIPES:
        recipe: type[Recipe] = getattr(importlib.import_module(f"groundling.recipes.{name}"), RECIPES[name])
        return recipe
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if Path(path).stem == name and name not in _outside:
            from_file(Path(path), path)
    if name in _outside:
        return _outside[name]
    if name in installed():
        return _from_package(name)
    raise GroundlingError(
        f"unknown recipe {name!r}; there are {', '.join([*RECIPES, *installed()])}. If it is in a file of yours, name "
        f"the file: `{VARIABLE}=path/to/{name}.py` in the environment, or `groundling train path/to/{name}.py`"
    )


def recipe_name(recipe: Recipe) -> str:
    made = type(recipe)
    for name, outside in _outside.items():
        if outside is made:
            return name
    for name, target in installed().items():
        if target == f"{made.__module__}:{made.__qualname__}":
            return name
    return next((name for name, of in RECIPES.items() if of == made.__name__), made.__name__.lower())


def renamed(recipe: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a recipe as a file of this version or an earlier one has them, with the names of this version."""
    recipe = OLD_RECIPES.get(recipe, recipe)
    new = OLD_FIELDS.get(recipe, {})
    return ABSENT.get(recipe, {}) | {new.get(name, name): value for name, value in fields.items()}


@cache
def installed() -> dict[str, str]:
    """Recipes of installed packages: name -> "module:class". The names of our own recipes cannot be taken."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP) if point.name not in RECIPES}


def _from_package(name: str) -> type[Recipe]:
    module, _, attribute = installed()[name].partition(":")
    try:
        recipe = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise GroundlingError(
            f"the recipe {name} of {module} cannot be used: {error}; reinstall its package"
        ) from error
    return _recipe(recipe, f"{module}:{attribute}")


def from_file(path: Path, given: str) -> str:
    """Import the recipe of a file that the user named; its name from now on. The last recipe in the file counts."""
    name = path.stem
    if not name.isidentifier() or name in RECIPES:
        raise GroundlingError(f"{path} cannot be called so: rename it to a word that is no recipe yet, as my_{name}.py")
    if not path.is_file():
        raise GroundlingError(f"there is no file {path}; a recipe is one of {', '.join(RECIPES)}, or a Python file")
    unique = f"groundling_recipe_{name}_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=4).hexdigest()}"
    spec = importlib.util.spec_from_file_location(unique, path)
    assert spec is not None and spec.loader is not None  # as the name ends with .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module  # dataclasses look their annotations up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise GroundlingError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == unique]
    made = [value for value in own if hasattr(value, "stages") and "__dataclass_params__" in vars(value)]
    if not made:
        raise GroundlingError(f"{path} holds no recipe: a frozen dataclass with `stages`; see docs/tutorial-recipe.md")
    _outside[name] = _recipe(made[-1], str(path))
    files[given] = name
    return name


def _recipe(candidate: Any, where: str) -> type[Recipe]:
    if not (
        isinstance(candidate, type) and hasattr(candidate, "stages") and hasattr(candidate, "__dataclass_fields__")
    ):
        raise GroundlingError(f"{where} is no recipe: a frozen dataclass with `stages`; see docs/tutorial-recipe.md")
    return candidate
