"""`bench/readme_commands.py` finds the README's commands, and leaves out those whose files nobody made."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme_commands", ROOT / "bench/readme_commands.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_are_split_as_a_shell_does(bench: ModuleType) -> None:
    page = '$ pip install .\n$ groundling ground a.jpg "a dog"  # 4 s\n$ groundling train updown \\\n    --lr 1\n'
    assert list(bench.commands(page)) == [["groundling", "ground", "a.jpg", "a dog"],
                                          ["groundling", "train", "updown", "--lr", "1"]]  # fmt: skip


def test_files_that_nobody_made_are_named(bench: ModuleType, tmp_path: Path) -> None:
    assert bench.missing(["groundling", "doctor", "my/data"], tmp_path) == "my/data"
    assert bench.missing(["groundling", "report", "--note", "@demo/photos/CREDITS.txt"], tmp_path) == "demo/photos"
    (tmp_path / "my/data").mkdir(parents=True)
    assert bench.missing(["groundling", "adapt", "--data", "my/data", "--out", "my/adapted"], tmp_path) == ""


def test_every_command_of_the_readme_says_how_long_it_takes() -> None:
    """After "#", except for those of which the text tells it; a line that goes on has it at its end."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("$ groundling ")]
    assert [line for line in lines if not re.search(r"\d s\b|minute|hour", line.partition("#")[2])] == []
