"""The walks of docs/architecture.md are those that the code takes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(scope="module")
def tables() -> dict[str, str]:
    """As measured in a process of its own: what an earlier test has cached would not run again."""
    code = "import json, sys, tempfile, walks; from pathlib import Path\n"
    code += "with tempfile.TemporaryDirectory() as folder: found = walks.walks(Path(folder))\n"
    code += "print(json.dumps({name: walks.table(walk) for name, walk in found.items()}))"
    path = os.pathsep.join([str(ROOT / "tools"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", WALKS)
def test_the_page_shows_the_walk_that_the_code_takes(name: str, tool: ModuleType, tables: dict[str, str]) -> None:
    page = tool.section(name, tool.PAGE.read_text(encoding="utf-8"))
    assert page == tables[name], "run: python tools/walks.py --write"


def test_a_photo_passes_through_few_files(tables: dict[str, str]) -> None:
    assert int(tables["photo"].split()[0]) <= MOST


def test_a_walk_counts_functions_that_run_and_not_modules_that_are_imported(tool: ModuleType) -> None:
    from groundling import boxes  # noqa: F401
    from groundling import types as loaded  # noqa: F401  (else the package looks for them, which is a function of it)

    def work() -> None:
        from groundling import types  # noqa: F401

        types.Score("x", 0.5, 1, "x")  # made by a function that no file has
        str(types.Score("x", 0.5, 1, "x"))

    assert tool.measured(work).way == ["types.py"]


def test_with_a_function_named_only_what_runs_inside_it_counts(tool: ModuleType) -> None:
    from groundling.text import words
    from groundling.text.singular import singular

    def work() -> None:
        singular("dogs")
        words.caption("two dogs")

    assert tool.measured(work, ("text/words.py", "caption")).way == ["text/words.py"]
