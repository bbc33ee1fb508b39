"""Threads that wait leave the cores to others, unless somebody said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys


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
