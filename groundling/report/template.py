"""The frame of all self-contained pages: one file with styles, data and script, without server and network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def page(package: str, title: str, data: Mapping[str, Any], *, note: str = "", also_style: str = "") -> str:
    """The text of the page of a package: its `page.html` is the body, with its `page.css` and `page.js`.

    The script finds `data` as `page`, and the functions of `shared.js`. `note` is put where the body has {{NOTE}};
    `also_style` is a package whose style comes first.
    """
    ours, theirs = files(__package__), files(package)
    styles = [files(also_style)] if also_style else []
    parts = {
        "TITLE": html.escape(title),
        "NOTE": html.escape(note),
        "STYLE": "".join((folder / "page.css").read_text("utf-8") for folder in (*styles, theirs)),
        "SCRIPT": (ours / "shared.js").read_text("utf-8") + (theirs / "page.js").read_text("utf-8"),
        # "<" is escaped, so no caption can close the element that holds it
        "DATA": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    text = (
        (ours / "frame.html").read_text("utf-8").replace("{{BODY}}", (theirs / "page.html").read_text("utf-8").rstrip())
    )
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)
