"""A real server, with the weights of the package, for all tests of this folder."""

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

import pytest

import groundling
from asking import Answer, ask

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
def running(log: Path, *words: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "groundling", "serve", "--port", "0", *words]
    here = os.environ | {"PYTHONPATH": str(Path(groundling.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=here)
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


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("serve")
    words = ("--photos", str(copied(place / "photos")), "--reviews", str(place / "reviews.jsonl"))
    with running(place / "log", *words) as server:
        yield server
