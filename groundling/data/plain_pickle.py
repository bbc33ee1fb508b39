"""Pickles that hold nothing but plain data: lists, dictionaries, strings and numbers, as RefCOCO was published.

A pickle is a program. Before it runs, its steps are read one by one: each must be one of those that build plain data,
and none may name a place of the memo so far away that the memo alone takes all memory. What it has built must be a
tree: lists inside of which the same list stands again and again are small on the disk and endless to walk
through.
"""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

from groundling.errors import DataError
from groundling.files import read_bytes

DEPTH = 20  # lists in lists; the published files have four
SHARED = 50  # so much longer than the file may its strings and tuples be, each counted wherever it stands

_FIXED = re.compile(  # steps of a known length: marks, numbers, containers, and places in the memo below 2^24
    rb"(?s:[(.012Nadelstu}\])\x85-\x89\x94]|\x80.|\x95.{8}|J.{4}|K.|M..|G.{8}|[hq].|j...\x00|r...\x00"
    rb"|[IFL][^\n]{0,100}\n|[gp][0-9]{1,7}\n|[SV][^\n]*\n){1,1000}"
)
_LENGTHS = {
    b"T": 4,
    b"U": 1,
    b"X": 4,
    b"\x8a": 1,
    b"\x8c": 1,
    b"\x8d": 8,
}  # steps that carry bytes -> bytes of the count
_REFUSED = b"cio\x93PQR\x81\x92b"  # ask for classes, functions or objects outside: the unpickler says for which


class PlainUnpickler(pickle.Unpickler):
    """Builds plain containers, strings and numbers. A pickle that names a class or a function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside of it")


def read_plain_pickle(path: Path) -> Any:
    """What a pickle of plain data holds; DataError for any other pickle."""
    content = read_bytes(path)
    try:
        _check_steps(content)
        value = PlainUnpickler(io.BytesIO(content), encoding="utf-8").load()
        _check_tree(value, len(content))
        return value
    except Exception as error:  # damaged pickles raise nearly every type there is
        raise DataError(f"{path}: not a pickle of plain data ({type(error).__name__}: {error}); get it anew") from error


def _check_steps(content: bytes) -> None:
    """ValueError where a step is none of plain data, or its memo would be larger than the data."""
    at = 0
    while at < len(content):
        if match := _FIXED.match(content, at):
            at = match.end()
            continue
        step = content[at : at + 1]
        if step in _REFUSED:
            return
        if step not in _LENGTHS:
            raise pickle.UnpicklingError(f"step {step!r} at byte {at} does not build plain data")
        width = _LENGTHS[step]
        at += 1 + width + int.from_bytes(content[at + 1 : at + 1 + width], "little")


def _check_tree(value: Any, size: int) -> None:
    """ValueError where a container stands in two places, is nested too deep, or holds something that is not plain."""
    shared: dict[int, bool] = {}  # containers -> may it stand in many places? Empty ones and tuples of values may
    characters, level, depth = 0, [value], 0
    while level:
        if (depth := depth + 1) > DEPTH:
            raise ValueError(f"lists in lists, more than {DEPTH} deep")
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                item.encode()  # UnicodeEncodeError, a ValueError, for half a character
                characters += len(item)
            elif isinstance(item, list | tuple | dict):
                characters += len(item)
                if id(item) not in shared:
                    inside = [*item, *item.values()] if isinstance(item, dict) else item
                    flat = not any(isinstance(x, list | tuple | dict) for x in inside)
                    shared[id(item)] = not item or (flat and isinstance(item, tuple))
                    below += inside
                elif not shared[id(item)]:
                    raise ValueError("the same list stands in two places")
            elif isinstance(item, int) and item.bit_length() > 64:
                raise ValueError(f"a number of {item.bit_length()} bits")
        if characters > SHARED * (size + 1000):
            raise ValueError(f"its strings and tuples are {SHARED} times as long as the file")
        level = below
