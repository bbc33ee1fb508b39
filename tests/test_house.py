"""The plan of the house: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "groundling"

LOW = {"errors", "types", "progress"}
TENSOR = LOW | {"tensors", "boxes"}
MAY_IMPORT = {  # a module or package -> what of ours it may import, itself aside
    "errors": set(),
    "types": {"errors"},
    "progress": set(),
    "tensors": {"types"},
    "boxes": set(),
    "text": LOW,
    "metrics": LOW | {"text"},
    "images": LOW,
    "draw": LOW | {"images"},
    "regions": TENSOR | {"images"},
    "data": TENSOR | {"text", "images", "regions"},
    "models": TENSOR,
    "objectives": TENSOR,
    "generate": TENSOR,
    "train": TENSOR | {"generate", "metrics"},
    "recipes": TENSOR | {"text", "data", "regions", "models", "objectives", "generate", "metrics", "train"},
}
TOP = {"cli", "commands", "api", "judge", "report", "__init__", "__main__"}  # may import everything


def ours(path: Path) -> set[str]:
    """Top-level parts of groundling that a file imports, at any depth of the syntax tree."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("groundling.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "groundling":
            found |= {a.name for a in node.names if a.name != "__version__"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("groundling."):
            found.add(node.module.split(".")[1])
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downwards(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part in TOP:
        return
    assert part in MAY_IMPORT, f"{part} is not in the plan of the house"
    assert ours(path) <= MAY_IMPORT[part] | {part}
