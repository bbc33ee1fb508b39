"""What a mistyped command line is answered with: one line that names the cure."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import partial
from typing import NoReturn

CHOICE = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
UNKNOWN = "unrecognized arguments: "


def teach(parser: argparse.ArgumentParser) -> None:
    """Let a parser and all below it answer mistakes in one line."""
    for one in _family(parser):
        setattr(one, "error", partial(_refuse, parser, one))  # noqa: B010


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Such as "; did you mean caption?", or nothing where no known word is like it."""
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _refuse(root: argparse.ArgumentParser, parser: argparse.ArgumentParser, message: str) -> NoReturn:
    told = _told(root, message)
    stop = "" if told.endswith("?") else "."
    print(f"groundling: {told}{stop} `{parser.prog} --help` shows examples", file=sys.stderr)
    raise SystemExit(2)


def _told(root: argparse.ArgumentParser, message: str) -> str:
    if found := CHOICE.fullmatch(message):
        what, word, choices = found.groups()
        known = re.findall(r"[\w-]+", choices)
        near = did_you_mean(word, known) or f"; there are {', '.join(known)}"
        return f"unknown {what.lower()} {word!r}{near}"
    if message.startswith(UNKNOWN):
        words = message.removeprefix(UNKNOWN).split()
        flag = next((word.partition("=")[0] for word in words if word.startswith("-")), words[0])
        return f"unknown argument {flag}{did_you_mean(flag, _flags(root))}"
    return message


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for one in _family(parser) for action in one._actions for flag in action.option_strings]


def _family(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _family(below)
