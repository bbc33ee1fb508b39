"""The commands of the README, typed one by one, and how long each takes.

    python bench/readme_commands.py PHOTO [--own DATA] [--files FOLDER] [--folder FOLDER] [--only caption ground]

Run it with the Python of the environment to try, a fresh one for a stranger's view. PHOTO becomes photo.jpg of an empty
folder, beside the tables that the README names; DATA, captioned photos, becomes my/data; FILES, a folder with others
that it names (results.json, data/ and so on), is copied beside them. All commands of the README's console blocks run
there in their order, `make demo`'s too where its photos are installed. `serve` is stopped when its models are loaded. A
command whose files are not there is listed with "no files", so is `reproduce` of a table, which takes hours. Prints a
table: exit code, seconds, and seconds of processor time of all processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from urllib.error import URLError
from urllib.request import urlopen

from groundling.commands.demo import lay_out as lay_out_demo

README = Path(__file__).parents[1] / "README.md"
GIVEN = ("results.json", "captions_val2014.json", "official/", "captions.jsonl", "plain.jsonl", "data/", "my/data")
GIVEN += ("new/", "tables")
START, STOP = 60, 20  # seconds for a server to be ready, and to end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photo", type=Path)
    parser.add_argument("--own", type=Path, help="a folder with captions.csv and its pictures")
    parser.add_argument("--files", type=Path, help="a folder with other files that the README names")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--only", nargs="+", metavar="COMMAND", help="these commands alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = args.folder or Path(place)
        lay_out(folder, args.photo, args.own, args.files)
        print("| command | exit | seconds | of processor time |\n|---|---|---|---|")
        for words in commands(README.read_text(encoding="utf-8")):
            if not args.only or words[1] in args.only:
                print(row(words, folder), flush=True)


def commands(text: str) -> Iterator[list[str]]:
    """The words of each `$ groundling …` of a page; a backslash at the end of a line joins the next one to it."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ groundling "):
            yield shlex.split(line[2:], comments=True)


def lay_out(folder: Path, photo: Path, own: Path | None = None, files: Path | None = None) -> None:
    for name in ("photo.jpg", "photos/photo.jpg", "new/photo.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, folder / name)
    (folder / "captions.tsv").write_text("photo.jpg\ta dog on the grass\nphoto.jpg\ta man beside a bus\n")
    (folder / "photos.csv").write_text("image,caption\nphotos/photo.jpg,a dog on the grass\n")
    if missing := lay_out_demo(folder / "demo"):
        print(f"without the photos of `make demo`: {missing}", file=sys.stderr)
    if own is not None:
        shutil.copytree(own, folder / "my" / "data", dirs_exist_ok=True)
    if files is not None:
        shutil.copytree(files, folder, dirs_exist_ok=True)


def missing(words: Sequence[str], folder: Path) -> str:
    """The first file of a command that nobody made; "" where all are there."""
    if not (folder / "demo/photos").is_dir() and any("demo/photos" in word for word in words):
        return "demo/photos"
    return next((word for word in words[2:] if word.startswith(GIVEN) and not glob(word, root_dir=folder)), "")


def row(words: list[str], folder: Path) -> str:
    """A line of the table, of one command."""
    command = shlex.join(words).replace("|", "\\|")
    if lacking := missing(words, folder):
        return f"| `{command}` | no files: {lacking} | | |"
    here = [found for word in words for found in sorted(glob(word, root_dir=folder)) or [word]]  # as a shell does
    wall, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path}
    code = served(here, folder, environment) if words[1] == "serve" else finished(here, folder, environment)
    after = getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"| `{command}` | {code} | {time.perf_counter() - wall:.1f} | {cpu:.1f} |"


def finished(words: Sequence[str], folder: Path, environment: dict[str, str]) -> int:
    """Run a command to its end; its exit code."""
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
    return done.returncode


def served(words: Sequence[str], folder: Path, environment: dict[str, str]) -> int:
    """Start the server on a free port, wait until its models are loaded, and end it as Ctrl-C does; its exit code."""
    log = folder / "serve.log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [*words, "--port", "0"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert server.stdout is not None
    address = next((word for word in server.stdout.readline().split() if word.startswith("http")), "")
    end = time.monotonic() + START
    while address and not _ready(address) and time.monotonic() < end:
        time.sleep(0.02)
    server.send_signal(signal.SIGINT)
    return server.wait(STOP)


def _ready(address: str) -> bool:
    try:
        with urlopen(address.rstrip("/") + "/readyz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (URLError, OSError):
        return False


if __name__ == "__main__":
    main()
