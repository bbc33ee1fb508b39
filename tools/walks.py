"""Which files a photo, a training batch and a prediction file pass through.

A file is on the way if one of its functions runs. `python tools/walks.py` measures this on little drawn data and prints
it; with --write it puts the tables into docs/architecture.md. A test measures it again and compares.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from groundling.cli import main
from groundling.data.dataset import load

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "groundling"
PAGE = ROOT / "docs" / "architecture.md"
PHOTO = PACKAGE / "serve" / "photos" / "cat.jpg"
INLINED = "<listcomp>", "<setcomp>", "<dictcomp>"  # calls of their own up to Python 3.11
LOADING = {"load", "load_grounder", "source_of", "digest"}  # functions of inference/ that read or hash weights
EPOCH = ("training/fit.py", "epoch")  # what runs inside it is the way of batches


@dataclass
class Walk:
    """Files in the order in which they are first entered."""

    way: list[str] = field(default_factory=list)
    loading: list[str] = field(default_factory=list)  # and are not on the way


def measured(work: Callable[[], Any], inside: tuple[str, str] | None = None) -> Walk:
    """The files whose functions run during `work`, in this thread and in those that it starts.

    With `inside`, a file and the name of a function of it, only while that function runs. What is given to a pool of
    threads is done at once, so that the order is always the same.
    """
    walk = Walk()
    within = {"loading": 0, "inside": inside is None}

    def entered(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
            return
        file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        if (file, code.co_name) == inside:
            within["inside"] = event == "call"
        if file.startswith("inference/") and code.co_name in LOADING:
            within["loading"] += 1 if event == "call" else -1
        function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in INLINED  # no class, no module
        if event == "call" and within["inside"] and function:
            found = walk.loading if within["loading"] else walk.way
            if file not in found:
                found.append(file)

    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        with patch.object(ThreadPoolExecutor, "submit", _at_once):
            work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    walk.loading = [file for file in walk.loading if file not in walk.way]
    return walk


def _at_once(_: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(work(*args, **named))
    except Exception as error:
        future.set_exception(error)
    return future


def walks(folder: Path) -> dict[str, Walk]:
    """That of a photo of the package, and two on scenes that are drawn in an empty folder."""
    scenes, regions, captions = (folder / name for name in ("scenes", "regions", "captions.jsonl"))
    run("scenes", scenes, "--images", 12, "--size", 96, "--splits", 0.5, 0.25, 0.25, "--workers", 1)
    run("regions", "extract", scenes, "--source", "scenes", "--out", regions, "--workers", 1)
    captions.write_text("\n".join(map(json.dumps, predictions(scenes))))
    small = ["--hidden", 8, "--embed", 8, "--attention", 8, "--epochs", 1, "--batch", 8, "--min-count", 1]
    data = ["--data", scenes, "--regions", regions]
    return {
        "photo": measured(lambda: run("caption", PHOTO, "--out", folder / "photo.jsonl")),
        "batch": measured(lambda: run("train", "updown", *data, "--out", folder / "run", *small), EPOCH),
        "score": measured(lambda: run("score", captions, "--data", scenes, "--split", "test")),
    }


def run(*words: object) -> None:
    code = main([str(word) for word in words])
    if code:
        raise SystemExit(code)


def predictions(scenes: Path) -> list[dict[str, Any]]:
    """The first caption of each test scene, with the box of each of its phrases."""
    rows = []
    for example in load(scenes, "test"):
        spans = example.captions[0].spans
        tied = {p.span[1] - 1: p.boxes[0] for p in example.gold if p.caption == 0 and p.boxes}
        links = [{"token": t, "span": spans[t], "box": box, "score": 1.0} for t, box in tied.items()]
        rows.append({"id": example.id, "caption": example.captions[0].text, "links": links})
    return rows


# ---------------------------------------------------------------- the page


def table(walk: Walk) -> str:
    """Files and the first sentences of their docstrings."""
    rows = [f"| {i} | `{file}` | {_purpose(file)} |" for i, file in enumerate(walk.way, start=1)]
    more = f"\n\nLoading the weights takes {len(walk.loading)} files more: " if walk.loading else ""
    more += ", ".join(f"`{file}`" for file in walk.loading) + ("." if walk.loading else "")
    return f"{len(walk.way)} files:\n\n| | file | what it does |\n|---|---|---|\n" + "\n".join(rows) + more


def _purpose(file: str) -> str:
    docstring = ast.get_docstring(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))) or ""
    first = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<! al)(?<! eq)[.] ", first)[0].rstrip(".").replace("|", "\\|")


def section(name: str, page: str) -> str:
    """What the page says between the marks of a walk."""
    found = re.search(rf"<!-- walk: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    if found is None:
        raise SystemExit(f"{PAGE} has no section <!-- walk: {name} --> … <!-- end -->")
    return found[1]


def rewritten(page: str, found: dict[str, Walk]) -> str:
    for name, walk in found.items():
        old = section(name, page)
        page = page.replace(f"<!-- walk: {name} -->\n{old}\n", f"<!-- walk: {name} -->\n{table(walk)}\n")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/architecture.md")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        told = walks(Path(place))
    for name, walk in told.items():
        print(f"{name}: {len(walk.way)} files, {len(walk.loading)} more for loading", *walk.way, sep="\n  ")
    if wanted.write:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")
