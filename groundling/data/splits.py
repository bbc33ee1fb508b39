"""Names of splits, and how to hold some examples out where nobody has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

CANONICAL = {
    "training": "train",
    "validation": "val",
    "valid": "val",
    "dev": "val",
    "testing": "test",
    "restval": "train",
}


def canonical(name: str) -> str:
    """`train`, `val`, `test` for what other people call them; other names stay. COCO's `restval` is trained on."""
    return CANONICAL.get(name.lower(), name)


def from_file_name(path: Path) -> str:
    """`train` for `captions_train2014.json`; "" where the name tells nothing."""
    words = "".join(c if c.isalpha() else " " for c in path.stem.lower()).split()
    known = [canonical(word) for word in words if canonical(word) in ("train", "val", "test")]
    return known[0] if known else ""


def held_out(ids: Iterable[str], count: int) -> set[str]:
    """`count` of the ids, the same ones for the same ids in any order: those whose hashes are smallest."""
    return set(sorted(ids, key=lambda id: hashlib.sha256(id.encode()).digest())[:count])
