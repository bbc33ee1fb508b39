"""The walks of docs/architecture.md are those that the code takes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
WALKS = ("photo", "batch", "score")
MOST = 25  # files in which a reader follows a photo from the command to the boxes


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("walks", ROOT / "tools" / "walks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def in_a_new_process(code: str) -> Any:
    """What the code prints last, as JSON: what an earlier test has cached would not run again here."""
    path = os.pathsep.join([str(ROOT / "tools"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def tables() -> dict[str, str]:
    code = "import json, sys, tempfile, walks; from pathlib import Path\n"
    code += "with tempfile.TemporaryDirectory() as folder: found = walks.walks(Path(folder))\n"
    code += "print(json.dumps({name: walks.table(walk) for name, walk in found.items()}))"
    found: dict[str, str] = in_a_new_process(code)
    return found


@pytest.mark.parametrize("name", WALKS)
def test_the_page_shows_the_walk_that_the_code_takes(name: str, tool: ModuleType, tables: dict[str, str]) -> None:
    page = tool.section(name, tool.PAGE.read_text(encoding="utf-8"))
    assert page == tables[name], "run: python tools/walks.py --write"


def test_a_photo_passes_through_few_files(tables: dict[str, str]) -> None:
    assert int(tables["photo"].split()[0]) <= MOST


def test_a_walk_counts_functions_that_run_and_not_modules_that_are_imported() -> None:
    way = in_a_new_process(
        """
import json, walks
from groundling import boxes, types  # else the package looks for them, which is a function of it

def work():
    from groundling import types
    types.Score("x", 0.5, 1, "x")  # made by a function that no file has
    str(types.Score("x", 0.5, 1, "x"))

print(json.dumps(walks.measured(work).way))
"""
    )
    assert way == ["types.py"]


def test_with_a_function_named_only_what_runs_inside_it_counts() -> None:
    way = in_a_new_process(
        """
import json, walks
from groundling.text import words
from groundling.text.singular import singular

def work():
    singular("dogs")
    words.caption("two dogs")

print(json.dumps(walks.measured(work, ("text/words.py", "caption")).way))
"""
    )
    assert way == ["text/words.py"]
