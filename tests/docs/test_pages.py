"""Pages of the site that are made from docstrings and from files of the repository."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from groundling.recipes import RECIPES

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parent.parent.parent


def tool_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tool_of("docs_pages")


def test_equations_stand_as_they_are_and_prose_flows(tool: ModuleType) -> None:
    made = tool.markdown("A title.\n\nWe take\ntwo lines:\n\n (1)  a_t = b_t\n(2)  c*d\n\nwith x_i of `x_j`.")
    assert made == "A title.\n\nWe take two lines:\n\n```text\n (1)  a_t = b_t\n(2)  c*d\n```\n\nwith x\\_i of `x_j`."


def test_the_name_of_a_recipe_links_to_its_page(tool: ModuleType) -> None:
    assert tool.markdown("As in `updown`, with `hidden`.") == "As in [`updown`](updown.md), with `hidden`."


def test_a_list_stays_a_list(tool: ModuleType) -> None:
    assert tool.markdown(" 1. One\n    and more.\n 2. Two.") == "1. One and more.\n2. Two."


def test_flags_below_a_sentence_stand_as_they_are(tool: ModuleType) -> None:
    assert tool.markdown("Variants:\n  --lam1 0.6   Table 10") == "Variants:\n\n```text\n  --lam1 0.6   Table 10\n```"


@pytest.mark.parametrize("name", [*RECIPES])
def test_the_page_of_a_recipe_has_every_numbered_equation_and_every_setting(name: str, tool: ModuleType) -> None:
    docstring, settings = tool.read(name)
    page = tool.recipe_page(name)
    equations = [line for line in docstring.splitlines() if re.match(r" *\(\d[\d, ]*\)  ", line)]
    code = "\n".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL)).splitlines()
    assert [line for line in equations if line not in code] == []
    assert all(f"| `--{one.name.replace('_', '-')}` |" in page for one in settings)


def documented() -> list[str]:
    """The names that the API pages document, `::: NAME` each."""
    pages = sorted((ROOT / "docs/api").glob("*.md"))
    return [name for page in pages for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("name", documented())
def test_what_the_api_pages_document_is_there(name: str) -> None:
    """A name that is not where they say ends `mkdocs build --strict`."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(module), last).__doc__


def test_links_of_copied_files_point_to_pages(tool: ModuleType) -> None:
    folder = Path("groundling/weights")
    assert tool.relinked("[more](../../docs/results.md)", folder) == "[more](results.md)"
    assert tool.relinked("[`updown`](../recipes/updown.py)", folder) == "[`updown`](recipes/updown.md)"
    assert tool.relinked("[types](../types.py)", folder) == "types (`groundling/types.py`)"
    assert tool.relinked("[site](https://example.org)", folder) == "[site](https://example.org)"


def test_bars_in_code_have_no_backslash(tool: ModuleType) -> None:
    assert tool.bars("| a\\|b | `x\\|y` |\n| `z` | c |") == "| a\\|b | `x|y` |\n| `z` | c |"


def test_absent_pages_are_left_out_of_the_navigation(tool: ModuleType) -> None:
    nav = [{"Home": "index.md"}, {"Guides": [{"A": "a.md"}, {"B": "b.md"}]}]
    assert tool._present(nav, {"b.md"}) == [{"Home": "index.md"}, {"Guides": [{"A": "a.md"}]}]


def test_arguments_become_a_list_and_examples_code() -> None:
    docstring = "Do it.\n\npath: where\n    it is.\nwhy: because.\n\nNote: this is no argument.\n\n>>> do()\n1"
    assert tool_of("docs_docstrings").shown(docstring, ["path", "why"]) == (
        "Do it.\n\n\n- `path`: where\n    it is.\n- `why`: because.\n\nNote: this is no argument."
        "\n\n```pycon\n>>> do()\n1\n```"
    )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """As `make docs` does: a link to nothing, a page outside the navigation, a name that moved are errors."""
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/index.html").exists()
