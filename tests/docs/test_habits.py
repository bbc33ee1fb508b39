"""Files about the project say what the project does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from groundling import __version__

ROOT = Path(__file__).parent.parent.parent


def recipe_of(target: str) -> list[str]:
    """The lines of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, target
    return [line.strip() for line in found[1].splitlines()]


def test_hooks_are_the_checks_of_make_test_in_their_order() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == recipe_of("test")
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in hooks)


def test_the_workflow_runs_what_ci_runs_on_every_python_that_is_supported() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    pythons = job["strategy"]["matrix"]["python"]
    assert pythons == ["3.10", "3.11", "3.12", "3.13"]
    assert f'requires-python = ">={pythons[0]}"' in (ROOT / "pyproject.toml").read_text()


def test_the_workflow_tests_scoring_without_torch() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["scoring"]
    assert job["steps"][-1]["run"] == "make test-scoring"
    installed = (ROOT / "Makefile").read_text().partition(".venv-scoring/bin/pip install")[2].partition("\n")[0]
    assert "'.[score]'" in installed and not {"torch", "train", "photos", "test]"} & set(
        re.findall(r"[\w\]]+", installed)
    )
    assert "tests/test_scoring_alone.py" in recipe_of("test-scoring")[0]


def test_the_citation_has_the_version_and_every_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert {paper["year"] for paper in citation["references"]} == {2017, 2020, 2021}
    named = {name for paper in citation["references"] for name in re.findall(r"\w+", paper["notes"])}
    assert {path.stem for path in (ROOT / "groundling/recipes").glob("[!_]*.py")} & named >= named - {
        "recipe",
        "recipes",
    }


def test_documentation_is_built_with_warnings_as_errors() -> None:
    assert any("mkdocs build --strict" in line for line in recipe_of("docs"))


@pytest.mark.parametrize("name", ["bug", "wrong_number", "idea"])
def test_issue_templates_ask_for_what_is_needed(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
    assert form["name"] and form["description"]
    assert any(field.get("validations", {}).get("required") for field in form["body"])


@pytest.mark.parametrize("file", ["CONTRIBUTING.md", "docs/release-checklist.md"])
def test_files_that_are_named_exist(file: str) -> None:
    """Paths between backquotes; NAME and FOLDER in capitals are for the reader to fill in."""
    named = re.findall(r"`((?:groundling|tests|docs|tools|bench)/[\w/.]*)`", (ROOT / file).read_text())
    assert named
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []
