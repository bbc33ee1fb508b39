"""A server as a process of its own, as people start it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asking import Answer, ask

import groundling

PHOTOS = Path(groundling.__file__).parent / "serve" / "photos"


@dataclass(frozen=True)
class Running:
    """A server as a process of its own."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        return ask(self.port, method, path, body, headers)

    def post(self, path: str, row: Any) -> Answer:
        return self.ask("POST", path, json.dumps(row).encode(), content_type="application/json")


@contextmanager
def running(log: Path, *words: str, folder: Path | None = None) -> Iterator[Running]:
    """Listening when the `with` begins. `folder`: where it runs, and where its temporary files would be."""
    command = [sys.executable, "-m", "groundling", "serve", "--port", "0", *words]
    here = os.environ | {"PYTHONPATH": str(Path(groundling.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    if folder:
        here["TMPDIR"] = str(folder)
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=here, cwd=folder)
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.search(r":(\d+)/", line)
        assert found, f"{line!r}, {log.read_text()}"
        yield Running(process, int(found[1]), log)
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def copied(folder: Path, names: Sequence[str] = ("astronaut.jpg", "cat.jpg")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(PHOTOS / name, folder / name)
    return folder
