"""What flags of several commands share: whole numbers as types, and names of an earlier version."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any


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


class Renamed(argparse.Action):
    """A flag by its name of an earlier version: not in --help, works for one more version, and tells the new name."""

    def __init__(self, option_strings: list[str], dest: str, now: str = "", **kwargs: Any) -> None:
        kwargs |= {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        super().__init__(option_strings, dest, **kwargs)
        self.now = now

    def __call__(
        self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: Any, option: str | None = None
    ) -> None:
        print(f"groundling: {option} is now {self.now}", file=sys.stderr)
        setattr(args, self.dest, value)
