"""Code blocks of Markdown files, as tests run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """`line` is that of its first line of code, from 1."""

    file: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line after "$ ", and what the page says that it prints."""

    text: str
    printed: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """As a shell splits it: comments are dropped, quotes are kept together, patterns of files are spelled out."""
        found = []
        for word in shlex.split(self.text, comments=True):
            found += sorted(map(str, Path().glob(word))) or [word] if "*" in word else [word]
        return found


def blocks(path: Path, root: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    file = path.relative_to(root).as_posix()
    return [Block(file, text[: m.start(2)].count("\n") + 1, m[1], m[2]) for m in FENCE.finditer(text)]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block. A line that ends in a backslash goes on in the next one."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    assert starts and starts[0] == 0, f"{block.where}: a console block begins with a command, after '$ '"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield Command(lines[start][2:], tuple(lines[start + 1 : end]))


def prints(expected: tuple[str, ...], output: str) -> bool:
    """Is this what was printed? A line "…" stands for any lines; spaces at the ends of lines do not count."""
    parts = ["(?:.*\n)*?" if line.strip() == "…" else re.escape(line.rstrip()) + "\n" for line in expected]
    got = "".join(f"{line.rstrip()}\n" for line in output.strip("\n").splitlines())
    return re.fullmatch("".join(parts), got) is not None
