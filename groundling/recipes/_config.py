"""The config of a recipe: what its fields may be, and what its source has of them: types, defaults, comments as help.

From the source and not from the class, so that `groundling train --help` need not import torch. The groups of settings
that a recipe is composed of need no torch, so these are looked at as they are.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from groundling.errors import GroundlingError
from groundling.recipes import _base, _settings
from groundling.recipes._base import Recipe
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
    """The docstring of a recipe's module, and its fields: its own first, then those of its groups of settings."""
    if name in RECIPES:
        path = Path(__file__).with_name(f"{name}.py")
        own = _classes(path)[RECIPES[name]]
        base = next(base.id for base in own.node.bases if isinstance(base, ast.Name))
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        return doc, _fields([own, *_lineage(getattr(_base, base))])
    made = recipe_class(name)
    return inspect.getdoc(sys.modules[made.__module__]) or inspect.getdoc(made) or "", _fields(_lineage(made))


@dataclass(frozen=True)
class _Source:
    """A class as it is written."""

    node: ast.ClassDef
    lines: list[str]  # of its file
    names: Mapping[str, Any]  # that its defaults may be made of

    def assignments(self) -> Iterator[tuple[str, ast.expr, ast.expr]]:
        """Name, annotation and default of each field."""
        for line in self.node.body:
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and line.value is not None
                and not ast.unparse(line.annotation).startswith("ClassVar")
            ):
                yield line.target.id, line.annotation, line.value

    def comment(self, value: ast.expr) -> str:
        """The comment after a value, on its last line."""
        assert value.end_lineno is not None and value.end_col_offset is not None
        return self.lines[value.end_lineno - 1].encode()[value.end_col_offset :].decode().partition("#")[2].strip()

    def value(self, node: ast.expr) -> Any:
        """Of a literal, a name, or a call of one with such arguments: nothing else is run."""
        if isinstance(node, ast.Name):
            return self.names[node.id]
        if isinstance(node, ast.Call):
            keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
            return self.value(node.func)(*map(self.value, node.args), **keywords)
        return ast.literal_eval(node)

    def comments(self, value: ast.expr) -> dict[str, str]:
        """The comment after a group, which has help for some of its fields: `# lr: of both sides · epochs: of each`."""
        parts = (part.partition(": ") for part in self.comment(value).split(" · "))
        return {name: text for name, _, text in parts if text}


def _lineage(made: type) -> list[_Source]:
    """The class and the recipes that it is made of, in the order in which Python looks fields up."""
    return [_source(one) for one in made.__mro__ if "__dataclass_params__" in vars(one)]


def _source(made: type) -> _Source:
    return replace(_classes(Path(inspect.getfile(made)))[made.__name__], names=vars(sys.modules[made.__module__]))


@cache
def _classes(path: Path) -> dict[str, _Source]:
    source = path.read_text(encoding="utf-8")
    names, lines = vars(_settings) | {"replace": replace}, source.splitlines()
    return {n.name: _Source(n, lines, names) for n in ast.parse(source).body if isinstance(n, ast.ClassDef)}


def _fields(lineage: list[_Source]) -> list[ConfigField]:
    """Those of the recipe before those of groups. The first default of a field counts, and the first comment."""
    own: dict[str, ConfigField] = {}
    groups: dict[str, list[ConfigField]] = {}
    for source in lineage:
        for name, annotation, value in source.assignments():
            kind = RANGES.get(ast.unparse(annotation))
            if kind is None:
                groups.setdefault(name, list(_of_group(source.value(value), source.comments(value))))
            else:
                own.setdefault(name, ConfigField(name, kind[0], source.value(value), source.comment(value)))
    return [*own.values(), *(field for group in groups.values() for field in group)]


def _of_group(group: Any, comments: Mapping[str, str]) -> Iterator[ConfigField]:
    """The fields of a group and of the groups in it; `comments` are those of the recipe, before the group's own."""
    source = _source(type(group))
    for name, annotation, value in source.assignments():
        default = getattr(group, name)
        if is_dataclass(default):
            yield from _of_group(default, comments)
        else:
            kind = RANGES[ast.unparse(annotation)][0]
            yield ConfigField(name, kind, default, comments.get(name) or source.comment(value))


def check(recipe: Recipe) -> None:
    """GroundlingError unless each field is what its annotation allows (`RANGES`, `MOST`).

    A float may be given as a whole number, a bool as 0 or 1. Since a model on disk names its recipe, this is also what
    a damaged or hostile file meets.
    """
    _check(recipe, type(recipe).__name__)


def _check(group: Any, recipe: str) -> None:
    for field in fields(group):
        value = getattr(group, field.name)
        if is_dataclass(value):
            _check(value, recipe)
            continue
        annotation = field.type if isinstance(field.type, str) else ALIASES.get(field.type, field.type.__name__)
        if annotation not in RANGES:
            raise GroundlingError(f"{field.name} of {recipe} must be one of {', '.join(RANGES)}")
        kind, least, most = RANGES[annotation]
        most = min(most, MOST.get(field.name, math.inf))
        fits = isinstance(value, int) or (kind is float and isinstance(value, float))
        if kind is not str and not (fits and least <= value <= min(most, sys.float_info.max)):
            allowed = f"from {least} to {most}" if most < math.inf else f"{NAMES[kind]}, {least} or more"
            raise GroundlingError(f"{field.name} must be {'0 or 1' if kind is bool else allowed}; got {value}")
