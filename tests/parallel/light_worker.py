"""A worker whose process starts quickly: it imports neither torch nor pytest. Actors of Ray import this file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from groundling.files import saved


def starts(out: str) -> Callable[[int], int]:
    """It keeps each item in a file of its own, as a shard of labels is kept."""

    def work(item: int) -> int:
        time.sleep(0.02)
        with saved(Path(out) / f"{item}.txt") as file:
            file.write(content(item))
        return item

    return work


def content(item: int) -> bytes:
    return b"%d\n" % item * 1000
