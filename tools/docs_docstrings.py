"""Docstrings as the API reference shows them: arguments as a list, examples as code. `mkdocs.yml` names this file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import griffe


class Plain(griffe.Extension):
    """Docstrings are prose in which a line `name: what it is` explains an argument, and `>>>` begins an example."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if func.docstring:
            func.docstring.value = shown(func.docstring.value, [parameter.name for parameter in func.parameters])

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring:
            cls.docstring.value = shown(cls.docstring.value)


def shown(docstring: str, arguments: Collection[str] = ()) -> str:
    return "\n\n".join(_block(block, arguments) for block in re.split(r"\n[ \t]*\n", docstring))


def _block(block: str, arguments: Collection[str]) -> str:
    """A block without an empty line."""
    if block.lstrip().startswith(">>>"):
        return f"```pycon\n{block}\n```"
    return "\n".join(_lines(block.splitlines(), arguments))


def _lines(lines: list[str], arguments: Collection[str]) -> Iterator[str]:
    listing = False
    for line in lines:
        name, colon, rest = line.partition(": ")
        if colon and name in arguments:
            if not listing:
                yield ""  # a list needs an empty line before it
            listing = True
            line = f"- `{name}`: {rest}"
        yield line
