"""What every reader asks of files from outside, and what becomes of those that disappoint."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundling.errors import DataError
from groundling.text.words import caption
from groundling.types import Box, Caption

SLACK = 1.0  # pixels that a box may reach beyond its image, as rounding does; it is then cut


@dataclass
class Problems:
    """Bad items of a data set: the first one is an error, or all are left out and listed."""

    skip: bool = False
    found: list[str] = field(default_factory=list)

    def report(self, where: str, what: str) -> None:
        """`where` names the file, line or id; `what` says what is wrong with it and what would be right."""
        if not self.skip:
            raise DataError(f"{where}: {what}; correct it, or leave such items out with --skip-bad (skip_bad=True)")
        self.found.append(f"{where}: {what}")


def read_text(path: Path, encoding: str = "utf-8-sig") -> str:
    """The text of a file; DataError where it is absent or not UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return decode(content, str(path), encoding)


def decode(content: bytes, where: str, encoding: str = "utf-8-sig") -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{where}, line {line}: not UTF-8 (byte {content[error.start]:#04x}); save it as UTF-8"
        ) from error


def parse_json(text: str, where: str) -> Any:
    """JSON as the standard has it (no NaN), not deeper than the interpreter can follow."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}, line {error.lineno}: not JSON ({error.msg}, column {error.colno}); is the file complete?"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON that can be read ({error})") from error


def read_json(path: Path) -> Any:
    return parse_json(read_text(path), str(path))


def parse_xml(text: str, where: str) -> ElementTree.Element:
    """XML without a document type: entities are the way to make a small file large."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DataError(f"{where}: XML with a document type is not read; remove the DOCTYPE")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else 1
        raise DataError(f"{where}, line {line}: not XML ({error}); is the file complete?") from error


def checked_caption(text: str, where: str, problems: Problems) -> Caption | None:
    """The caption, or None (reported) where there is no word in it."""
    found = caption(text)
    if not found.tokens:
        problems.report(where, "empty caption" if not text.strip() else f"no word in the caption {text[:40]!r}")
        return None
    return found


def checked_box(corners: Sequence[float], size: tuple[int, int], where: str, problems: Problems) -> Box | None:
    """The box cut to its image, or None (reported) where it is not finite, inverted, empty or outside the image.

    A size of (0, 0) is unknown and nothing is outside it.
    """
    left, top, right, bottom = corners
    shown = f"box ({left:g}, {top:g}, {right:g}, {bottom:g})"
    if not all(map(math.isfinite, corners)):
        problems.report(where, f"{shown} is not finite")
        return None
    if right <= left or bottom <= top:
        problems.report(where, f"{shown} is inverted or empty: right must exceed left, bottom must exceed top")
        return None
    width, height = size if size != (0, 0) else (math.inf, math.inf)
    if left < -SLACK or top < -SLACK or right > width + SLACK or bottom > height + SLACK:
        problems.report(where, f"{shown} reaches beyond the image of {width:g} x {height:g} pixels")
        return None
    cut = max(left, 0.0), max(top, 0.0), min(right, width), min(bottom, height)
    if cut[2] <= cut[0] or cut[3] <= cut[1]:
        problems.report(where, f"{shown} lies beside the image of {width:g} x {height:g} pixels")
        return None
    return cut


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
