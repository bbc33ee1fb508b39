"""The page of the papers' claims is what the stored scores make of it, and the README says no more."""

from __future__ import annotations

from pathlib import Path

from groundling.papers.page import page
from groundling.papers.summary import read

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_page_is_made_from_the_stored_summaries_alone() -> None:
    made = page(read(DOCS / "papers"))
    cure = "groundling reproduce --page docs/papers.md --out docs/papers"
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == made, f"make it anew: {cure}"


def test_our_numbers_in_the_table_of_recipes_are_those_of_a_claim_on_the_page() -> None:
    claims = [line.split(" | ") for line in (DOCS / "papers.md").read_text(encoding="utf-8").splitlines()]
    shown = {(cells[4], cells[-1].split()[0].strip("`")) for cells in claims if len(cells) == 9}
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| recipe | what it is |"))
    rows = [line.strip("| ").split(" | ") for line in lines[start + 2 : lines.index("", start)]]
    assert len(rows) > 15
    for cells in rows:
        ours, table = cells[-2], cells[-1].split()[0].strip("`")
        assert ours == "·" or (ours, table) in shown, cells
