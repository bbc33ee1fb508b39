"""Threads that wait leave the cores to others, unless somebody said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from groundling.cli import main
from groundling.progress import PASSIVE, SHORT


def waiting(code: str, **variables: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_"))}
    code = f"import os, groundling; {code}; print(os.environ.get('OMP_WAIT_POLICY'))"
    done = subprocess.run([sys.executable, "-c", code], env=clean | variables, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_what_captions_and_grounds_waits_passively_and_what_does_neither_changes_nothing() -> None:
    assert waiting("groundling.load") == "PASSIVE"
    assert waiting("groundling.GroundedCaption") == "None"


def test_a_policy_that_somebody_chose_stays() -> None:
    assert waiting("groundling.load", OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"


def test_threads_of_a_training_spin_for_a_moment_and_a_policy_that_somebody_chose_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The variables are set before a mistake in the rest of the line is told."""
    for name in [*PASSIVE, *SHORT]:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    assert main(["train", "updown", "--data", "no", "--regions", "no", "--out", "no"]) == 2
    assert os.environ["GOMP_SPINCOUNT"] == "10000" and "OMP_WAIT_POLICY" not in os.environ
    for name in SHORT:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert main(["train", "updown", "--data", "no", "--regions", "no", "--out", "no"]) == 2
    assert "GOMP_SPINCOUNT" not in os.environ
