"""`groundling tokenize`: tokens as the caption metrics see them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import BinaryIO

from groundling.errors import DataError
from groundling.files import reading

DESCRIPTION = """\
Print tokens as the caption metrics count them: Stanford PTBTokenizer 3.4.1, lower-cased, without punctuation.

The command reads lines and writes the tokens of each, separated by spaces, one line out for every line in. Only a line
feed ends a line; carriage returns and form feeds count as spaces. In a token that holds a space ("3 1/2") a no-break
space stands for it. Bytes that are not UTF-8 are left out.

With --jsonl each line in is a JSON string, each line out a JSON list of strings."""

EPILOG = """\
examples:
  echo "A man's dog can't wait." | groundling tokenize
  groundling tokenize captions.txt more.txt > tokens.txt
  echo '"two\\nlines"' | groundling tokenize --jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("files", nargs="*", metavar="FILE", help="UTF-8 text; standard input if none")
    parser.add_argument("--jsonl", action="store_true", help="JSON strings in, JSON lists out")


def run(args: argparse.Namespace) -> None:
    from groundling.text.ptb import token_text, tokenize

    for location, line in _lines(args.files):
        text = json.dumps(tokenize(_parse(location, line))) if args.jsonl else token_text(line)
        sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.buffer.flush()


def _lines(files: list[str]) -> Iterator[tuple[str, str]]:
    """Every line with its file and number, for messages. Input is read as bytes, whose lines end at \\n alone."""
    if not files:
        yield from _decoded("standard input", sys.stdin.buffer)
    for name in files:
        with reading(name), open(name, "rb") as file:
            yield from _decoded(name, file)


def _decoded(name: str, file: BinaryIO) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file, start=1):
        yield f"{name}, line {number}", line.removesuffix(b"\n").decode("utf-8", "replace")


def _parse(location: str, line: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: not JSON: {error}; --jsonl expects one JSON string per line") from error
    if not isinstance(value, str):
        raise DataError(f"{location}: expected a JSON string, got {type(value).__name__}")
    return value
