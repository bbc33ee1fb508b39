"""METEOR by its own jar, as a cross-check. The jar is spoken to line by line, as coco-caption does."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

import numpy as np

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.metrics.meteor.lexicon import data_folder
from groundling.metrics.statistics import Array

MINUTES = 60
BREAKS = re.compile("[\r\n]")


def ask_the_jar(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
    """The statistics of each image, as the jar counts them, in the columns of `groundling.metrics.meteor`."""
    lines = [_line(said, true) for said, true in zip(hypotheses, references, strict=True)]
    answers = _run("".join(lines))
    if len(answers) != len(lines):
        raise GroundlingError(
            f"METEOR's jar answered {len(answers)} of {len(lines)} lines; run it again without --java"
        )
    return np.array([_row(answer) for answer in answers])


def _line(said: str, true: Sequence[str]) -> str:
    return " ||| ".join(["SCORE", *(BREAKS.sub(" ", text.replace("|||", "")) for text in (*true, said))]) + "\n"


def _run(text: str) -> list[str]:
    java = shutil.which("java")
    if java is None:
        raise MissingExtra("--java needs a Java runtime (8 or later) on the PATH; without --java none is needed")
    jar = data_folder() / "meteor-1.5.jar"
    command = [java, "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked, tempfile.TemporaryFile("w+") as told:
        asked.write(text)
        asked.seek(0)
        try:  # the jar looks for its tables beside itself
            done = subprocess.run(
                command, stdin=asked, stdout=told, stderr=subprocess.PIPE, cwd=jar.parent, timeout=60 * MINUTES
            )
        except subprocess.TimeoutExpired as error:
            raise GroundlingError(f"METEOR's jar did not answer within {MINUTES} minutes") from error
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise GroundlingError(f"METEOR's jar stopped with code {done.returncode}: {last[0]}")
        told.seek(0)
        return told.read().splitlines()


def _row(answer: str) -> list[float]:
    """The jar tells matched words kind by kind: content words of caption and reference, then function words."""
    try:
        told = [float(x) for x in answer.split()]
        by_kind = np.array(told[4:20]).reshape(4, 2, 2)  # kind, content or function, caption or reference
        chunks, *matched = told[20:23]
    except ValueError as error:
        raise DataError(f"METEOR's jar answered {answer[:80]!r}, not a row of numbers") from error
    return [*told[:4], chunks, *matched, *by_kind.transpose(2, 1, 0).ravel()]
