"""Drawn scenes, their regions and a small grounder that learned from them, made once for all test files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from groundling.cli import main

TINY = ["--joint", 16, "--embed", 8, "--hidden", 8, "--epochs", 1, "--batch", 8, "--min-count", 1, "--distill", 0]


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(tmp_path_factory)


@lru_cache(maxsize=1)
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("label")
    data, regions, model = place / "scenes", place / "regions", place / "model"
    extract = ["regions", "extract", data, "--source", "scenes", "--out", regions, "--workers", 1]
    train = ["train", "two_branch", "--data", data, "--regions", regions, "--out", model, *TINY]
    for words in (["scenes", data, "--images", 30], extract, train):
        assert main([str(word) for word in words]) == 0
    return place
