"""A caption as a person reads it in a terminal: nouns numbered and coloured, then a line about each."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from groundling.errors import printable
from groundling.report.picture import colours, weak_words
from groundling.types import GroundedCaption

WEAK = "weak evidence, perhaps made up"


def readable(caption: GroundedCaption) -> RenderableType:
    """The file, the caption, and a table: box, how sure the model is of it, how likely the thing is there at all."""
    colour, doubtful = colours(caption), weak_words(caption)
    number = {token: i for i, token in enumerate(colour, start=1)}
    line, end = Text("  "), 0
    for token, (start, stop) in enumerate(caption.spans):
        line.append(caption.text[end:start])
        line.append(caption.text[start:stop], f"bold {colour[token]}" if token in colour else "")
        if token in number:
            line.append(f"[{number[token]}{'?' if token in doubtful else ''}]", colour[token])
        end = stop
    line.append(caption.text[end:])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", min_width=4)
    for name in ("", *(["frame"] if caption.frames else [])):
        table.add_column(name)
    for name in ("box (x1 y1 x2 y2)", "score", "evidence"):
        table.add_column(name, justify="right")
    table.add_column("")
    for link in caption.links:
        evidence = "" if link.evidence is None else f"{link.evidence:.2f}"
        table.add_row(
            str(number[link.token]),
            Text(caption.word(link), colour[link.token]),
            *([str(link.frame)] if caption.frames else []),
            " ".join(f"{x:.0f}" for x in link.box),
            f"{link.score:.2f}",
            evidence,
            Text(WEAK if caption.weak(link) else link.source and f"by {link.source}", "yellow"),
        )
    when = ", {:.1f} to {:.1f} s".format(*caption.segment) if caption.segment else ""
    return Group(Text(printable(caption.media or caption.id) + when, "dim"), line, *([table] if caption.links else []))
