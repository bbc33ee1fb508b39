"""Pages of the documentation that are made from the project's own files; `mkdocs.yml` names this file as a hook.

A recipe's page is its docstring, with the equations as they stand, and its settings. The model card, the changelog and
CONTRIBUTING are the files of the repository, with their links pointing to the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from groundling.recipes import RECIPES
from groundling.recipes._config import read

ROOT = Path(__file__).resolve().parent.parent
COPIES = {  # page of the site -> file of the repository
    "model-card.md": "groundling/weights/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
ENTRY = re.compile(r" *(\d+)\. ")  # of a numbered list


# ---------------------------------------------------------------- what MkDocs calls


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave optional pages that are absent out of the navigation, and put the pages of recipes into it."""
    docs = Path(config.docs_dir)
    absent = {page for page in config.extra["optional_pages"] if not (docs / page).exists()}
    config.nav = _present(config.nav or [], absent)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, text in pages():
        files.append(File.generated(config, page, content=text))
    return files


def _present(nav: list[Any], absent: set[str]) -> list[Any]:
    """The navigation without absent pages."""
    kept: list[Any] = []
    for entry in nav:
        [(title, target)] = entry.items()
        if isinstance(target, list):
            kept.append({title: _present(target, absent)})
        elif target == "recipes/":
            kept.append({title: ["recipes/index.md", *({name: f"recipes/{name}.md"} for name in RECIPES)]})
        elif target not in absent:
            kept.append(entry)
    return kept


# ---------------------------------------------------------------- pages


def pages() -> Iterator[tuple[str, str]]:
    """Each page that is made: its path in the site, its Markdown."""
    for page, source in COPIES.items():
        yield page, bars(relinked((ROOT / source).read_text(encoding="utf-8"), Path(source).parent))
    yield "recipes/index.md", recipe_index()
    for name in RECIPES:
        yield f"recipes/{name}.md", recipe_page(name)


def recipe_index() -> str:
    lines = [
        "# Recipes\n",
        "A recipe is one paper: equations, settings, parts, stages and losses, from top to bottom in one file of",
        "`groundling/recipes/`. Each page below is made from that file.\n",
        "| recipe | what it is |\n|---|---|",
        *(f"| [`{name}`]({name}.md) | {_first_line(read(name)[0])} |" for name in RECIPES),
    ]
    return "\n".join(lines)


def recipe_page(name: str) -> str:
    """Title, docstring, command, settings."""
    docstring, settings = read(name)
    rows = [f"| `--{one.name.replace('_', '-')}` | {one.default} | {_cell(one.help)} |" for one in settings]
    return "\n".join(
        [
            f"# {name}\n",
            f"```console\n$ groundling train {name} --help\n```\n",
            markdown(docstring),
            "\n## Settings\n",
            "| flag | default | |\n|---|---|---|",
            *rows,
        ]
    )


def markdown(docstring: str) -> str:
    """A docstring as Markdown: paragraphs and lists flow; indented lines and numbered equations stand as they are."""
    return "\n\n".join(part for block in re.split(r"\n\s*\n", docstring.strip("\n")) for part in _parts(block))


def _parts(block: str) -> Iterator[str]:
    """A block without an empty line. Lines at the margin before indented ones are a paragraph of their own."""
    lines = block.splitlines()
    if ENTRY.match(lines[0]):
        yield from _entries(lines)
        return
    flowing = 0
    while flowing < len(lines) and not lines[flowing].startswith(" ") and not re.match(r"\(\d", lines[flowing]):
        flowing += 1
    if flowing:
        yield _prose(" ".join(lines[:flowing]))
    if lines[flowing:]:
        yield "```text\n" + "\n".join(lines[flowing:]) + "\n```"


def _entries(lines: list[str]) -> Iterator[str]:
    """A numbered list whose entries may take several lines."""
    entries: list[str] = []
    for line in lines:
        if ENTRY.match(line):
            entries.append(line.strip())
        else:
            entries[-1] += " " + line.strip()
    yield "\n".join(_prose(entry) for entry in entries)


def _prose(text: str) -> str:
    """Signs of mathematics are letters here, not Markdown; `code` stays, and the name of a recipe links to its page."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(_code(part) if part.startswith("`") else re.sub(r"([_*\[\]<>])", r"\\\1", part) for part in parts)


def _code(part: str) -> str:
    name = part.strip("`")
    return f"[{part}]({name}.md)" if name in RECIPES else part


def _first_line(docstring: str) -> str:
    return _cell(_prose(" ".join(docstring.split("\n\n")[0].split())))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def bars(text: str) -> str:
    """Bars in code of a table need a backslash on GitHub; here they have none, and it would be shown."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), text)


def relinked(text: str, folder: Path) -> str:
    """Links of a file in `folder`, as links of a page at the top of the site; those to code become its name."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if target.startswith(("http", "#")):
            return match[0]
        path = (ROOT / folder / target).resolve().relative_to(ROOT).as_posix()
        copy = next((page for page, source in COPIES.items() if source == path), None)
        if path.startswith("groundling/recipes/") and path.endswith(".py"):
            copy = f"recipes/{Path(path).stem}.md"
        if copy or path.startswith("docs/"):
            return f"[{words}]({copy or path.removeprefix('docs/')})"
        return words if words.startswith("`") else f"{words} (`{path}`)"

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, text)
