"""What recipes repeat."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import groundling.recipes

FOLDER = Path(groundling.recipes.__file__).parent


def code_lines(path: Path) -> list[str]:
    """The lines of a file that are neither empty, nor comments, nor docstrings, nor a single bracket."""
    source = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = [line.strip() for number, line in enumerate(source.splitlines(), 1) if number not in told]
    return [line for line in lines if len(line) > 1 and not line.startswith("#")]


def test_less_than_a_fifth_of_the_lines_of_recipes_stand_in_three_or_more_of_them() -> None:
    """Imports and signatures included; it was 54 %."""
    files = [code_lines(path) for path in FOLDER.glob("[!_]*.py")]
    recipes_with = Counter(line for lines in files for line in set(lines))
    repeated = sum(recipes_with[line] >= 3 for lines in files for line in lines)
    assert repeated < 0.2 * sum(map(len, files))
