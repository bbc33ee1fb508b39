"""What METEOR and SPICE share: the files of the `pycocoevalcap` package, a Java runtime, a folder for results."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from groundling.errors import DataError, GroundlingError, MissingExtra

HOURS = 6


def jar_folder(metric: str) -> Path:
    """Where `pycocoevalcap` keeps the files of a metric; found without importing it."""
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"{metric.upper()} needs the files of pycocoevalcap: pip install 'groundling[score]'")
    return Path(spec.submodule_search_locations[0]) / metric


def cache_folder() -> Path:
    """A folder of the user's that we may write to; a temporary one where the home is read-only."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundling"
    user = os.getuid() if hasattr(os, "getuid") else 0
    for folder in (home, Path(tempfile.gettempdir()) / f"groundling-{user}"):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(folder, os.W_OK) and folder.stat().st_uid == user:
                return folder
        except OSError:
            continue
    raise DataError(f"no folder to keep results in; make {home} writable, or set XDG_CACHE_HOME")


def run_java(metric: str, arguments: Sequence[str], folder: Path, text: str = "") -> list[str]:
    """Run Java in a folder with `text` on its standard input; the lines of its answer."""
    java = shutil.which("java")
    if java is None:
        raise MissingExtra(f"{metric}'s jar needs Java, and there is no `java` on the PATH")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked, tempfile.TemporaryFile("w+") as output:
        asked.write(text)
        asked.seek(0)
        try:
            command = [java, *arguments]
            done = subprocess.run(
                command, stdin=asked, stdout=output, stderr=subprocess.PIPE, cwd=folder, timeout=3600 * HOURS
            )
        except subprocess.TimeoutExpired as error:
            raise GroundlingError(f"{metric}'s jar did not answer within {HOURS} hours") from error
        except OSError as error:
            raise GroundlingError(f"{java} cannot be run: {error.strerror}") from error
        if done.returncode:
            message = done.stderr.decode("utf-8", "replace").strip()
            raise GroundlingError(f"{metric}'s jar stopped with code {done.returncode}: {_cause(message)}")
        output.seek(0)
        return output.read().splitlines()


def _cause(message: str) -> str:
    """The line of a Java trace that says what happened."""
    lines = [line.strip() for line in message.splitlines()]
    causes = [line for line in lines if "Exception" in line or "Error" in line]
    return (causes or lines or ["no message"])[0][:500]
