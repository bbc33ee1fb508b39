"""Files: the one way to write a file in one step, and the one way to read JSON from outside.

JSON is read with suspicion: every error names the file, the place in it, and what was expected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from groundling.errors import DataError, GroundlingError

Source = str | Path | Mapping[str, Any] | Sequence[Any]  # a path, or what the file holds, already parsed

T = TypeVar("T")

# ---------------------------------------------------------------- writing


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` once all of it is on the disk.

    Whatever fails in between (a full disk, a kill) leaves the file that was there before. Several processes may write
    the same file: the last one wins.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def saving(path: Path, kept: str = "") -> Iterator[None]:
    """An error of the disk while `path` is written, in one line."""
    try:
        yield
    except OSError as error:
        cure = "Make room, or allow writing there, and run the same command again"
        raise GroundlingError(f"cannot save {path}: {error}{kept}. {cure}") from error


@contextmanager
def saved(path: Path) -> Iterator[BinaryIO]:
    """`atomic`, with errors of the disk in one line."""
    with saving(path, "; the one saved before is intact" if path.exists() else ""), atomic(path) as file:
        yield file


# ---------------------------------------------------------------- reading


def read_json(source: Source, role: str) -> tuple[Any, str]:
    """What a JSON file holds, and its name for messages. `role` names a source that is not a file.

    A key that occurs twice in one object is an error: the second would silently replace the first.
    """
    if not isinstance(source, str | Path):
        return source, role
    return parse_json(read_text(source), str(source)), str(source)


def read_lines(path: str | Path) -> list[tuple[int, str]]:
    """The lines of a file that hold something, with their numbers. Only \\n ends a line: captions may hold others."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    return [(number, line) for number, line in lines if line.strip()]


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8 JSON") from error
    except ValueError as error:
        raise DataError(f"{str(path)!r}: not the name of a file: {error}") from error


def parse_json(text: str, name: str) -> Any:
    """The value of one JSON text; DataError with the line and column of the first mistake."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise DataError(f"{name}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except _DuplicateKey as error:
        raise DataError(f"{name}: the key {error.args[0]!r} occurs twice in one object; keep one") from error
    except (RecursionError, ValueError) as error:  # nested too deep; an integer of thousands of digits
        raise DataError(f"{name}: not JSON that can be read: {error}") from error


class Place:
    """Where in a file we are; knows how to ask for a value and how to complain. Built lazily: only errors print it."""

    __slots__ = ("steps",)

    def __init__(self, *steps: object) -> None:
        self.steps = steps

    def at(self, *steps: object) -> Place:
        return Place(*self.steps, *steps)

    def error(self, message: str) -> DataError:
        name, *inside = (str(step) for step in self.steps)
        return DataError(f"{name}: {' / '.join(inside)}: {message}" if inside else f"{name}: {message}")

    def expect(self, value: Any, kind: type[T]) -> T:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"expected {_KINDS[kind]}, got {_shown(value)}")
        return value

    def get(self, value: Any, key: str, kind: type[T]) -> T:
        """`value[key]` of an object, checked."""
        mapping = self.expect(value, dict)
        if key not in mapping:
            raise self.error(f"the key {key!r} is missing; there are {_shown(sorted(map(str, mapping)))}")
        return self.at(key).expect(mapping[key], kind)

    def id(self, value: Any, key: str) -> str:
        """`value[key]`, the id of an image: an integer or a string, and 7 and "7" are the same."""
        found = self.get(value, key, object)
        if isinstance(found, bool) or not isinstance(found, int | str):
            raise self.at(key).error(f"expected an integer or a string, got {found!r:.80}")
        return str(found)

    def items(self, value: Any, kind: type[T]) -> list[T]:
        """The members of a list, each checked."""
        members = self.expect(value, list)
        for i, member in enumerate(members):
            if type(member) is not kind:
                self.at(i).expect(member, kind)
        return members

    def call(self, function: Callable[[Any], T], value: Any) -> T:
        """`function(value)`, its ValueError told as a mistake in the file."""
        try:
            return function(value)
        except ValueError as error:
            raise self.error(str(error)) from error


_KINDS = {dict: "an object", list: "a list", str: "a string", int: "an integer", float: "a number"}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class _DuplicateKey(Exception):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return result
