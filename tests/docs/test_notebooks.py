"""The notebooks run from top to bottom, and what they show can be shown. No Jupyter is needed for it."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from groundling.cli import main

FOLDER = Path(__file__).parent.parent.parent / "docs/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[str]:
    """The code of a notebook, which is kept without outputs."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in found)
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, Any]) -> str:
    """Run one cell as Jupyter does; what it shows of the value of its last line, as HTML where there is any."""
    if code.startswith("!"):
        words = shlex.split(code[1:].format(**names))
        assert words[0] == "groundling" and main(words[1:]) == 0
        return ""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return str(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit_a_vlm", "own_photos", "score_and_compare"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = "".join(run_cell(code, names) for code in cells(path))
    expected = {
        "own_photos": ("<svg", "data:image/jpeg;base64,", "a secretword", "unknown"),
        "score_and_compare": ("<td>CIDEr-D</td>", "cider-d|"),
        "audit_a_vlm": ("not there", "grounded"),
    }
    assert all(part in shown for part in expected[path.stem]), shown[-2000:]
