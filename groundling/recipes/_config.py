"""The config of a recipe: what its fields may be, and what its source says of them: types, defaults, comments as help.

From the source and not from the class, so that `groundling train --help` need not import torch.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path

from groundling.errors import GroundlingError
from groundling.recipes import RECIPES, Recipe

TYPES = {"int": int, "float": float, "str": str}
MOST = {"length": 1000}  # beam search makes room for so many words before it knows the first


@dataclass(frozen=True)
class ConfigField:
    name: str
    type: type[int] | type[float] | type[str]
    default: int | float | str
    help: str


def read(name: str) -> tuple[str, list[ConfigField]]:
    """The docstring of a recipe's module, and the fields of its dataclass, in order."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    recipe = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == RECIPES[name])
    found = []
    for node in recipe.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.annotation, ast.Name)
        ):
            assert node.value is not None and node.end_lineno is not None
            comment = lines[node.end_lineno - 1][node.end_col_offset :].partition("#")[2].strip()
            found.append(ConfigField(node.target.id, TYPES[node.annotation.id], ast.literal_eval(node.value), comment))
    return ast.get_docstring(tree) or "", found


def check(recipe: Recipe, *, shares: Collection[str] = (), zero: Collection[str] = ()) -> None:
    """GroundlingError unless each `int` field is a whole number, 1 or more, and each `float` finite and 0 or more.

    Whole numbers of `zero` may be 0; `shares` are from 0 to 1; `MOST` limits some. A float may be given as a whole
    number. Since a model on disk names its recipe, this is also what a damaged or hostile file meets.
    """
    for field in fields(recipe):
        name, kind, value = field.name, TYPES[str(field.type)], getattr(recipe, field.name)
        if kind is str:
            continue
        least = int(kind is int and name not in zero)
        most = 1 if name in shares else MOST.get(name, math.inf)
        fits = isinstance(value, int) or (kind is float and isinstance(value, float))
        if not (fits and least <= value <= min(most, sys.float_info.max)):
            number = "a whole number" if kind is int else "a number"
            allowed = f"from {least} to {most}" if most < math.inf else f"{number}, {least} or more"
            raise GroundlingError(f"{name} must be {allowed}; got {value}")
