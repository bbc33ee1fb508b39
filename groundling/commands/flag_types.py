"""Numbers on the command line, as types of flags."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def whole(least: int) -> Callable[[str], int]:
    """The type of a flag that takes a whole number, `least` or more."""

    def number(text: str) -> int:  # argparse calls it by this name where the text is none
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"takes a number, {least} or more, got {text}")
        return value

    return number


def listed(least: int) -> Callable[[str], list[int]]:
    """The type of a flag that takes different whole numbers, `least` or more, with commas between them."""

    def parse(text: str) -> list[int]:
        parts = text.split(",")
        if not all(part.isdecimal() and int(part) >= least for part in parts):
            raise argparse.ArgumentTypeError(
                f"takes whole numbers, {least} or more, with commas between them, got {text!r}"
            )
        found = [int(part) for part in parts]
        if len(set(found)) < len(found):
            raise argparse.ArgumentTypeError(f"a number comes twice in {text}")
        return found

    return parse


def share(text: str) -> float:
    """The type of a flag that takes a probability."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"takes a probability, from 0 to 1, got {text}")
    return value


share.__name__ = "probability"  # as argparse calls it where the text is no number
