"""The tool that compares the numbers of two states of the code; what it measures takes too long for a test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from groundling.recipes import RECIPES

TOOL = Path(__file__).parent.parent / "tools" / "same_numbers.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("same_numbers", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_output_that_differs_or_is_missing_is_named(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(results: dict[str, object], *words: str) -> int:
        monkeypatch.setattr(tool, "measure", lambda: results)
        monkeypatch.setattr(sys, "argv", ["same_numbers.py", *words])
        code: int = tool.main()
        return code

    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    assert run({"score": 0.5, "boxes": [[0, 1]], "log": "x"}, before) == 0
    assert run({"score": 0.5, "boxes": [[0, 1]], "log": "x"}, after, "--against", before) == 0
    assert "3 of 3 outputs are the same" in capsys.readouterr().out
    assert run({"score": 0.25, "boxes": [[0, 1]]}, after, "--against", before) == 1
    printed = capsys.readouterr().out
    assert "different: score" in printed and "different: log" in printed and "different: boxes" not in printed


def test_the_trainings_are_of_recipes_and_later_ones_need_earlier_ones(tool: ModuleType) -> None:
    done: list[str] = []
    for recipe, flags in tool.TRAININGS.items():
        assert recipe in RECIPES
        needed = [flags[i + 1] for i, flag in enumerate(flags) if flag in ("--guide", "--start")]
        assert set(needed) <= set(done)
        done.append(recipe)
