"""Drawn scenes, their regions, and a little grounder that was calibrated on them, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundling.cli import main

TINY = ["--joint", 16, "--embed", 8, "--hidden", 8, "--epochs", 3, "--batch", 8, "--min-count", 1, "--distill", 0]


@pytest.fixture(scope="session")
def grounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `scenes`, `regions` and `model`."""
    place = tmp_path_factory.mktemp("grounded")
    scenes, regions, model = place / "scenes", place / "regions", place / "model"

    def run(*words: object) -> None:
        assert main([str(word) for word in words]) == 0

    run("scenes", scenes, "--images", 30)
    run("regions", "extract", scenes, "--source", "scenes", "--out", regions, "--workers", 1)
    run("train", "two_branch", "--data", scenes, "--regions", regions, "--out", model, *TINY)
    run("ground", "--data", scenes, "--regions", regions, "--model", model, "--split", "train", "--calibrate")
    return place
