"""A server as a process of its own, as people start it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_calls import Response, call
from PIL import Image

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

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        return call(self.port, method, path, body, headers)

    def post(self, path: str, row: Any) -> Response:
        return self.call("POST", path, json.dumps(row).encode(), content_type="application/json")


@contextmanager
def running(log: Path, *words: str, folder: Path | None = None, threads: int | None = 1) -> Iterator[Running]:
    """Listening when the `with` begins. `folder`: where it runs, and where its temporary files would be. `threads` of
    each calculation; None: as it is by default."""
    command = [sys.executable, "-m", "groundling", "serve", "--port", "0", *words]
    here = os.environ | {"PYTHONPATH": str(Path(groundling.__file__).parent.parent)}
    if threads:
        here["OMP_NUM_THREADS"] = str(threads)
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


def labelled(folder: Path, copies: int = 1) -> Path:
    """Labels of two example photos, as `groundling label` writes them; the cat has so many."""
    cat = [_label("a brown cat", [20, 30, 240, 140], 0.5 + i / 10_000) for i in range(copies)]
    woman = [_label("a woman", [100, 20, 220, 200], 0.8)]
    shard = folder / "shards" / "000000.jsonl"
    shard.parent.mkdir(parents=True)
    rows = [_image("cat", cat), _image("astronaut", woman)]
    shard.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "job.json").write_text(json.dumps({"format": 1, "settings": {}, "shards": ["000000"]}))
    return folder


def _image(name: str, labels: list[Any]) -> dict[str, Any]:
    with Image.open(PHOTOS / f"{name}.jpg") as picture:
        size = list(picture.size)
    captions = [labels[0]["phrase"] + " looks here"]
    return {"id": name, "image": str(PHOTOS / f"{name}.jpg"), "size": size, "captions": captions, "labels": labels}


def _label(phrase: str, box: list[float], confidence: float) -> dict[str, Any]:
    mention = {"caption": 0, "span": [0, len(phrase)]}
    boxes = [{"box": box, "score": 0.5, "confidence": confidence}]
    return {"phrase": phrase, "head": phrase.split()[-1], "mentions": [mention], "boxes": boxes, "evidence": 0.9}
