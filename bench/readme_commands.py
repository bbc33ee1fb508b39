"""The commands of the README, typed one by one, and how long each takes.

    python bench/readme_commands.py PHOTO [--own DATA] [--folder FOLDER] [--only caption ground]

Run it with the Python of the environment to try, a fresh one for a stranger's view. PHOTO becomes photo.jpg of an empty
folder, beside the tables that the README names; DATA, captioned photos, becomes my/data. All commands of the README's
console blocks run there in their order, `make demo`'s too, but for `serve`, which does not end, and those whose files
nobody made (scores of other people's results; tests/docs runs them). Prints a table: exit code, seconds, and seconds of
processor time of all processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from groundling.commands.demo import lay_out as lay_out_demo

README = Path(__file__).parents[1] / "README.md"
GIVEN = ("results.json", "captions_val2014.json", "official/", "captions.jsonl", "plain.jsonl", "data/", "tables")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photo", type=Path)
    parser.add_argument("--own", type=Path, help="a folder with captions.csv and its pictures")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--only", nargs="+", metavar="COMMAND", help="these commands alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = args.folder or Path(place)
        lay_out(folder, args.photo, args.own)
        print("| command | exit | seconds | of processor time |\n|---|---|---|---|")
        for words in commands(README.read_text(encoding="utf-8")):
            if can_run(words, args.own is not None) and (not args.only or words[1] in args.only):
                print(row(words, folder), flush=True)


def commands(text: str) -> Iterator[list[str]]:
    """The words of each `$ groundling …` of a page; a backslash at the end of a line joins the next one to it."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ groundling "):
            yield shlex.split(line[2:], comments=True)


def can_run(words: list[str], own: bool) -> bool:
    asked = any(word.startswith(GIVEN) for word in words[2:])
    mine = any(word.startswith(("my/", "new/")) for word in words[2:])
    return words[1] not in ("serve", "reproduce") and not asked and (own or not mine)


def lay_out(folder: Path, photo: Path, own: Path | None) -> None:
    for name in ("photo.jpg", "photos/photo.jpg", "new/photo.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, folder / name)
    (folder / "captions.tsv").write_text("photo.jpg\ta dog on the grass\nphoto.jpg\ta man beside a bus\n")
    (folder / "photos.csv").write_text("image,caption\nphotos/photo.jpg,a dog on the grass\n")
    if missing := lay_out_demo(folder / "demo"):
        sys.exit(f"the commands of `make demo` need its photos: {missing}")
    if own is not None:
        shutil.copytree(own, folder / "my" / "data", dirs_exist_ok=True)


def row(words: list[str], folder: Path) -> str:
    """A line of the table, of one command."""
    here = [found for word in words for found in sorted(glob(word, root_dir=folder)) or [word]]  # as a shell does
    wall, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(here, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    after = getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
    command = shlex.join(words).replace("|", "\\|")
    return f"| `{command}` | {done.returncode} | {time.perf_counter() - wall:.1f} | {cpu:.1f} |"


if __name__ == "__main__":
    main()
