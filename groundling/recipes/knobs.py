"""The knobs of a recipe, read from its source: names, types, defaults, and the comments beside them as help.

From the source and not from the class, so that `groundling train --help` need not import torch.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from groundling.recipes import RECIPES

TYPES = {"int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Knob:
    name: str
    type: type[int] | type[float] | type[str]
    default: int | float | str
    help: str


def read(name: str) -> tuple[str, list[Knob]]:
    """The docstring of a recipe's module, and the fields of its dataclass, in order."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    recipe = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == RECIPES[name])
    knobs = []
    for node in recipe.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.annotation, ast.Name)
        ):
            assert node.value is not None and node.end_lineno is not None
            comment = lines[node.end_lineno - 1][node.end_col_offset :].partition("#")[2].strip()
            knobs.append(Knob(node.target.id, TYPES[node.annotation.id], ast.literal_eval(node.value), comment))
    return ast.get_docstring(tree) or "", knobs
