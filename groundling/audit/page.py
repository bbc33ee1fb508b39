"""One HTML page of an audit: the worst captions first, with the likely boxes of each noun."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from groundling.audit.verdicts import NOT_THERE, VERDICTS, WRONG_PLACE
from groundling.errors import DataError
from groundling.files import save_text
from groundling.images import open_image
from groundling.report import embed, template

SIDE = 400  # longest side of the pictures


def badness(line: dict[str, Any]) -> tuple[int, float]:
    """How many nouns are wrong, then how unlikely the unlikeliest is: the worst captions have the most."""
    wrong = sum(one["verdict"] in (NOT_THERE, WRONG_PLACE) for one in line["phrases"])
    lowest = min((one["evidence"] for one in line["phrases"] if one["evidence"] is not None), default=1.0)
    return wrong, -lowest


def worst(lines: Iterable[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """So many captions, the worst first; no more than these are held in memory."""
    audited = (line for line in lines if "error" not in line and line["phrases"])
    return heapq.nlargest(count, audited, key=badness)


def write(
    path: Path,
    lines: Iterable[dict[str, Any]],
    summary: dict[str, Any],
    find: Callable[[str], Path] | None,
    *,
    title: str = "audit",
) -> None:
    """Write the page of these captions, with the pictures that `find` finds; without one, boxes stand alone."""
    rows = list(lines)
    pictures: dict[str, str] = {}
    for image in dict.fromkeys(row["image"] for row in rows):
        if find is not None and (picture := _picture(find, image)):
            pictures[image] = picture
    page = {"title": title, "verdicts": VERDICTS, "summary": summary, "rows": rows, "pictures": pictures}
    save_text(path, template.page(__package__, title, page, also_style="groundling.report"))


def _picture(find: Callable[[str], Path], image: str) -> str:
    try:
        return embed(open_image(find(image)), SIDE)
    except DataError:
        return ""
