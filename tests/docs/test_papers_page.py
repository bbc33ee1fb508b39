"""The page of the papers' claims is what the stored scores make of it."""

from __future__ import annotations

from pathlib import Path

from groundling.papers.page import page
from groundling.papers.summary import read

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_is_made_from_the_stored_summaries_alone() -> None:
    made = page(read([DOCS / "papers"]))
    cure = "groundling reproduce --page docs/papers.md --out docs/papers"
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == made, f"make it anew: {cure}"
