"""The plan of the house: who may import whom."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from groundling.cli import main
from groundling.commands import COMMANDS
from groundling.recipes import RECIPES

ROOT = Path(__file__).parent.parent / "groundling"

LOW = {"errors", "types", "progress", "files"}
TENSOR = LOW | {"tensors", "boxes"}
MEDIA = {"images", "video"}
BRICKS = TENSOR | MEDIA | {"parallel", "text", "data", "regions", "models", "objectives", "metrics", "decoding"}
USE = BRICKS | {"recipes", "training"}
PRODUCTS = {"formats", "audit", "labels", "search", "serve"}
ALL = USE | PRODUCTS | {"inference", "evaluation", "scenes", "report", "papers", "__version__"}
MAY_IMPORT = {  # a module or package -> what of ours it may import, itself aside; the longest name that fits counts
    "__init__": {"progress", "serve", "inference", "report", "types"},
    "__main__": {"cli"},
    "cli": {"commands", "errors", "progress"},
    "errors": set(),
    "types": {"errors"},
    "progress": set(),
    "files": {"errors"},
    "tensors": {"types"},
    "boxes": {"types"},
    "images": LOW,
    "video": LOW | {"images"},
    "text": LOW,
    "formats": LOW | {"text", "images"},
    "metrics": LOW | {"text", "__version__"},
    "parallel": {"errors", "progress"},
    "regions": TENSOR | MEDIA | {"parallel"},
    "data": TENSOR | MEDIA | {"text", "regions"},
    "models": TENSOR,
    "objectives": TENSOR,
    "decoding": TENSOR,
    "training": TENSOR | {"decoding", "metrics"},
    "training.run": BRICKS | {"recipes"},
    "training.extend": BRICKS | {"recipes"},
    "training.adapt": BRICKS | {"recipes", "inference", "evaluation"},
    "recipes": BRICKS | {"training"},
    "inference": USE,
    "evaluation": USE | {"inference", "formats"},
    "scenes": TENSOR | MEDIA | {"text", "data", "regions"},
    "report": TENSOR | MEDIA | {"data"},
    "audit": USE | {"inference", "evaluation", "formats", "report"},
    "labels": USE | {"inference", "evaluation", "report"},
    "search": TENSOR | {"labels", "text"},
    "serve": USE | {"inference", "evaluation", "report", "formats", "audit", "labels", "search", "__version__"},
    "papers": USE | {"inference", "evaluation", "report", "__version__"},
    "commands": ALL,
}


def part_of(path: Path) -> str:
    """The entry of the plan that a file belongs to."""
    names = list(path.relative_to(ROOT).with_suffix("").parts)
    while names and ".".join(names) not in MAY_IMPORT:
        names.pop()
    assert names, f"{path} is not in the plan of the house"
    return ".".join(names)


def ours(path: Path) -> set[str]:
    """Top-level parts of groundling that a file imports, at any depth of the syntax tree."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("groundling.")}
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}: a relative import hides what is imported; write it out")
        elif isinstance(node, ast.ImportFrom) and node.module == "groundling":
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("groundling."):
            found.add(node.module.split(".")[1])
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downwards(path: Path) -> None:
    part = part_of(path)
    assert ours(path) <= MAY_IMPORT[part] | {part.split(".")[0]}


def test_packages_form_layers_but_for_the_run_that_joins_recipes_and_the_loop() -> None:
    """Without `training.run`, no two parts import each other, directly or by others."""
    left = {name: set(may) for name, may in MAY_IMPORT.items() if "." not in name}
    while left:
        free = [name for name, may in left.items() if not may & left.keys()]
        assert free, f"these import each other: {sorted(left)}"
        for name in free:
            del left[name]


def test_the_root_has_few_modules() -> None:
    assert len(list(ROOT.glob("*.py"))) <= 12


def test_recipes_holds_recipes_and_helpers_with_an_underscore() -> None:
    assert {path.stem for path in (ROOT / "recipes").glob("[!_]*.py")} == set(RECIPES)


def test_only_commands_print() -> None:
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] not in ("commands", "cli.py"):
            calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


@pytest.mark.parametrize("name", [*COMMANDS])
def test_every_command_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert len(capsys.readouterr().out) > 400


def test_help_imports_nothing_heavy() -> None:
    """Start-up decides how a command feels: torch, numpy and spaCy wait until they are needed."""
    code = "import sys; from groundling.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit(bool({'torch', 'numpy', 'spacy', 'rich', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_every_file_of_the_package_is_in_its_wheel() -> None:
    """Licences too, which go where the data goes."""
    tomllib = pytest.importorskip("tomllib")
    told = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packages = [path.parent for path in ROOT.rglob("__init__.py")]
    shipped = {
        path
        for package in packages
        for name in ("*", ".".join(package.relative_to(ROOT.parent).parts))
        for pattern in told.get(name, ())
        for path in package.glob(pattern)
    }
    there = {path for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert there - shipped == set()


def test_the_readme_holds_no_unfilled_place_and_its_code_compiles() -> None:
    readme = (ROOT.parent / "README.md").read_text()
    assert "@@" not in readme
    for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        compile(block, "README.md", "exec")
    for line in re.findall(r"^\$ groundling (\S+)", readme, re.MULTILINE):
        assert line in COMMANDS
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", readme):
        assert (ROOT.parent / link).exists(), link


def test_skipped_browser_tests_are_counted_with_the_cure() -> None:
    from browsers import browser_tests

    assert browser_tests(0, 0) == "" and browser_tests(3, 0) == "3 browser tests ran"
    assert "2 were skipped" in browser_tests(1, 2) and "apt-get install chromium" in browser_tests(1, 2)
