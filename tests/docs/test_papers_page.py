"""The page of the papers' claims is what the stored scores make of it, and the README says no more."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from groundling.papers.page import page
from groundling.papers.summary import DIRECTION, read, write
from groundling.papers.tables import table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CURE = "make it anew: python tools/papers_pages.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("papers_pages", ROOT / "tools" / "papers_pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_stored_summaries_alone(tool: ModuleType) -> None:
    found = read(DOCS / "papers")
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == page(found, tool.note(found)), CURE


def test_the_note_counts_claims_on_drawn_data_with_more_seeds_and_those_that_are_to_get_them(tool: ModuleType) -> None:
    def claims(*each: tuple[int, str]) -> dict[str, Any]:
        return {str(i): {"seeds": [*range(n)], "verdict": verdict} for i, (n, verdict) in enumerate(each)}

    drawn = claims((6, "confirmed"), (3, DIRECTION), (3, "not seen"), (6, DIRECTION))
    drawn["untested"] = None
    found = {"one": [{"data": "scenes", "claims": drawn}, {"data": "photos", "claims": claims((3, DIRECTION))}]}
    note = " ".join(tool.note(found).split())
    assert "2 claims on drawn scenes have more than three seeds so far, 1 that are to get them" in note


def test_the_numbers_in_the_table_of_recipes_are_made_from_the_stored_summaries(tool: ModuleType) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text == tool.readme(text, read(DOCS / "papers")), CURE


def line(ours: str = "9.9") -> str:
    """A README whose table has one line, with a wrong number of the paper."""
    row = f"| `x` | what it does | attention | 1.0 → 2.0 | {ours} | `pos-scan-table-1 --rows 2,5` |"
    return f"text\n\n| recipe | what it is | … |\n|---|---|---|\n{row}\n\nmore"


def cell(p: float | None, *values: float) -> dict[str, Any]:
    return {"values": {str(seed): value for seed, value in enumerate(values)}, "p": p, "signature": ""}


@pytest.mark.parametrize(
    ("p", "data", "expected"),
    [(0.01, "scenes", "20.0 → 35.0*"), (0.2, "scenes", "20.0 → 35.0"), (0.01, "photos", "·")],
)
def test_a_line_of_the_table_by_hand(tool: ModuleType, p: float, data: str, expected: str) -> None:
    rows = {
        "plain": {"attention": cell(None, 0.1, 0.3)},
        "kl-pos-scan": {"attention": cell(p, 0.3, 0.4)},
    }
    found = {"pos-scan-table-1": [{"data": data, "baseline": "Up-Down", "rows": rows, "claims": {}}]}
    made = tool.readme(line(), found)
    assert f"| attention | 19.8 → 29.4 | {expected} | `pos-scan-table-1 --rows 2,5` |" in made
    assert "| attention | 19.8 → 29.4 | · |" in tool.readme(line(), {})


def test_means_of_a_line_are_of_the_seeds_that_all_its_rows_have(tool: ModuleType) -> None:
    """Of 0.1, 0.3 and 0.8 the last has no partner: 0.2, and not 0.4."""
    rows = {"plain": {"attention": cell(None, 0.1, 0.3, 0.8)}, "kl-pos-scan": {"attention": cell(0.2, 0.3, 0.4)}}
    summary = {"data": "scenes", "baseline": "Up-Down", "rows": rows, "claims": {}}
    told = tool.ours(table("pos-scan-table-1"), [1, 4], "attention", {"pos-scan-table-1": [summary]})
    assert told == "20.0 → 35.0"


def test_against_another_row_than_the_baseline_the_test_of_a_claim_counts(tool: ModuleType) -> None:
    rows = {"scan": {"attention": cell(0.9, 0.1)}, "pos-scan": {"attention": cell(0.9, 0.2)}}
    claim = "POS-SCAN looks at the right region more often than SCAN"
    for p, star in ((0.001, "*"), (0.5, "")):
        summary = {"data": "scenes", "baseline": "Up-Down", "rows": rows, "claims": {claim: {"p": p}}}
        told = tool.ours(table("pos-scan-table-1"), [0, 2], "attention", {"pos-scan-table-1": [summary]})
        assert told == "10.0 → 20.0" + star


def test_a_summary_is_added_to_the_stored_one_of_its_table(tool: ModuleType, tmp_path: Path) -> None:
    """Rows that were run elsewhere stay; a table that was never run comes as it is."""
    about = {"table": "t", "data": "d", "split": "test", "images": {"scored": 1}, "command": "", "claims": {}}
    for folder, row in (("stored", "a"), ("new", "b")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, {**about, "rows": {row: {"x": cell(None, 0.1)}}})
    write(tmp_path / "new", {**about, "table": "u", "rows": {}})
    for file in sorted((tmp_path / "new").glob("*.json")):
        tool.add(file, tmp_path / "stored")
    found = read(tmp_path / "stored")
    assert set(found["t"][0]["rows"]) == {"a", "b"} and set(found) == {"t", "u"}
