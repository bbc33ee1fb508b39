"""Drawn scenes, their regions and a small grounder that learned from them, made once for all test files."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundling.cli import main

TINY = ["--joint", 16, "--embed", 8, "--hidden", 8, "--epochs", 1, "--batch", 8, "--min-count", 1, "--distill", 0]


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each test file that imports this fixture has one of its own; the folder is the same."""
    if not _made:
        _made.append(_make(tmp_path_factory.mktemp("label")))
    return _made[0]


_made: list[Path] = []


def _make(place: Path) -> Path:
    data, regions, model = place / "scenes", place / "regions", place / "model"
    extract = ["regions", "extract", data, "--source", "scenes", "--out", regions, "--workers", 1]
    train = ["train", "two_branch", "--data", data, "--regions", regions, "--out", model, *TINY]
    for words in (["scenes", data, "--images", 30], extract, train):
        assert main([str(word) for word in words]) == 0
    return place
