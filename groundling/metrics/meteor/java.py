"""METEOR by its own jar, as a cross-check. The jar is called line by line, as coco-caption does."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from groundling.errors import DataError, GroundlingError
from groundling.metrics.jars import jar_folder, run_java
from groundling.metrics.statistics import Array

JAR = "meteor-1.5.jar"
BREAKS = re.compile("[\r\n]")


def ask_the_jar(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
    """The statistics of each image, as the jar counts them, in the columns of `groundling.metrics.meteor`."""
    lines = [_line(caption, true) for caption, true in zip(hypotheses, references, strict=True)]
    answers = _run("".join(lines))
    if len(answers) != len(lines):
        raise GroundlingError(
            f"METEOR's jar answered {len(answers)} of {len(lines)} lines; run it again without --java"
        )
    return np.array([_row(answer) for answer in answers])


def _line(caption: str, true: Sequence[str]) -> str:
    return " ||| ".join(["SCORE", *(BREAKS.sub(" ", text.replace("|||", "")) for text in (*true, caption))]) + "\n"


def _run(text: str) -> list[str]:
    folder = jar_folder("meteor")  # the jar looks for its tables beside itself
    return run_java("METEOR", ["-Xmx2G", "-jar", JAR, "-", "-", "-stdio", "-l", "en", "-norm"], folder, text)


def _row(answer: str) -> list[float]:
    """The jar gives matched words kind by kind: content words of caption and reference, then function words."""
    try:
        numbers = [float(x) for x in answer.split()]
        by_kind = np.array(numbers[4:20]).reshape(4, 2, 2)  # kind, content or function, caption or reference
        chunks, *matched = numbers[20:23]
    except ValueError as error:
        raise DataError(f"METEOR's jar answered {answer[:80]!r}, not a row of numbers") from error
    return [*numbers[:4], chunks, *matched, *by_kind.transpose(2, 1, 0).ravel()]
