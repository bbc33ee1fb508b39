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
    style = "".join((folder / "page.css").read_text("utf-8") for folder in (*styles, theirs))
    script = (ours / "shared.js").read_text("utf-8") + (theirs / "page.js").read_text("utf-8")
    body = (theirs / "page.html").read_text("utf-8")
    return framed(title, body, inline("style", style), inline("script", script), data, note=html.escape(note))


def inline(element: str, text: str) -> str:
    return f"<{element}>\n{text}\n</{element}>"


def framed(
    title: str, body: str, style: str, script: str, data: Mapping[str, Any] | None, *, note: str = "", kind: str = ""
) -> str:
    """The text of a page from the elements that it is made of; `title` is plain text, `kind` the class of its body."""
    parts = {
        "TITLE": html.escape(title),
        "KIND": f' class="{kind}"' if kind else "",
        "NOTE": note,
        "STYLE": style,
        "SCRIPT": script,
        # "<" is escaped, so no caption can close the element that holds it
        "DATA": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    text = (files(__package__) / "frame.html").read_text("utf-8").replace("{{BODY}}", body.rstrip())
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)
