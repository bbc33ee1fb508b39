"""The config of a recipe: what its fields may be, and what its source says of them: types, defaults, comments as help.

From the source and not from the class, so that `groundling train --help` need not import torch.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from groundling.errors import GroundlingError
from groundling.recipes._protocol import Recipe
from groundling.recipes._registry import RECIPES, recipe_class
from groundling.recipes._settings import Count, Share

Kind: TypeAlias = type[int] | type[float] | type[str] | type[bool]

RANGES: dict[str, tuple[Kind, float, float]] = {  # annotation of a field -> its type, least and greatest value
    "int": (int, 1, math.inf),
    "Count": (int, 0, math.inf),
    "float": (float, 0, math.inf),
    "Share": (float, 0, 1),
    "bool": (bool, 0, 1),
    "str": (str, 0, 0),
}
ALIASES: dict[Any, str] = {Share: "Share", Count: "Count"}
MOST = {"length": 1000}  # beam search makes room for so many words before it knows the first
NAMES = {int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class ConfigField:
    name: str
    type: Kind
    default: int | float | str
    help: str

    def parse(self, text: str) -> int | float | str:
        """The value that a text stands for; ValueError if it stands for none."""
        return switch(text) if self.type is bool else self.type(text)


def switch(text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true", "no", "yes"):
        raise ValueError(f"must be 0 or 1, got {text}")
    return text.lower() in ("1", "true", "yes")


def read(name: str) -> tuple[str, list[ConfigField]]:
    """The docstring of a recipe's module, and its fields: its own first, then those of the settings that it shares."""
    if name in RECIPES:
        source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
        here = _classes(source) | {key: of for key, of in _shared().items() if key != RECIPES[name]}
        return ast.get_docstring(ast.parse(source)) or "", _fields(here, _bases(RECIPES[name], here))
    made = recipe_class(name)
    lineage = [one for one in made.__mro__ if "__dataclass_params__" in vars(one)]
    here = {one.__name__: _class_of(one) for one in lineage}
    return inspect.getdoc(sys.modules[made.__module__]) or inspect.getdoc(made) or "", _fields(here, list(here))


_Source = tuple[ast.ClassDef, list[str]]  # a class, and the lines of its file


def _classes(source: str) -> dict[str, _Source]:
    lines = source.splitlines()
    return {node.name: (node, lines) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def _shared() -> dict[str, _Source]:
    return _classes(Path(__file__).with_name("_settings.py").read_text(encoding="utf-8"))


def _class_of(made: type) -> _Source:
    return _classes(Path(inspect.getfile(made)).read_text(encoding="utf-8"))[made.__name__]


def _bases(name: str, here: dict[str, _Source]) -> list[str]:
    """The class and those that it is made of, in the order in which Python looks fields up (none is reached twice)."""
    bases = [base.id for base in here[name][0].bases if isinstance(base, ast.Name) and base.id in here]
    return [name, *(above for base in bases for above in _bases(base, here))]


def _fields(here: dict[str, _Source], order: list[str]) -> list[ConfigField]:
    """The first default of a field counts, and the first comment."""
    fields_by_name: dict[str, ConfigField] = {}
    for name in order:
        for field in _fields_of(*here[name]):
            known = fields_by_name.setdefault(field.name, field)
            if not known.help:
                fields_by_name[field.name] = ConfigField(known.name, known.type, known.default, field.help)
    return list(fields_by_name.values())


def _fields_of(node: ast.ClassDef, lines: list[str]) -> Iterator[ConfigField]:
    for line in node.body:
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(line.annotation, ast.Name)
            and line.annotation.id in RANGES
        ):
            assert line.value is not None and line.end_lineno is not None
            comment = lines[line.end_lineno - 1].encode()[line.end_col_offset :].decode().partition("#")[2].strip()
            kind = RANGES[line.annotation.id][0]
            yield ConfigField(line.target.id, kind, ast.literal_eval(line.value), comment)


def check(recipe: Recipe) -> None:
    """GroundlingError unless each field is what its annotation allows (`RANGES`, `MOST`).

    A float may be given as a whole number, a bool as 0 or 1. Since a model on disk names its recipe, this is also what
    a damaged or hostile file meets.
    """
    for field in fields(recipe):
        annotation = field.type if isinstance(field.type, str) else ALIASES.get(field.type, field.type.__name__)
        if annotation not in RANGES:
            raise GroundlingError(f"{field.name} of {type(recipe).__name__} must be one of {', '.join(RANGES)}")
        kind, least, most = RANGES[annotation]
        value = getattr(recipe, field.name)
        most = min(most, MOST.get(field.name, math.inf))
        fits = isinstance(value, int) or (kind is float and isinstance(value, float))
        if kind is not str and not (fits and least <= value <= min(most, sys.float_info.max)):
            allowed = f"from {least} to {most}" if most < math.inf else f"{NAMES[kind]}, {least} or more"
            raise GroundlingError(f"{field.name} must be {'0 or 1' if kind is bool else allowed}; got {value}")
