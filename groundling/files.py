"""Files: the one way to read a file from outside, to write one in one step, to lock a folder and to seal it.

What comes from outside is read with suspicion: only regular files (nothing that could keep us waiting), no more bytes
than a limit, and every error names the file, the place in it, and what was expected.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import platform
import re
import reprlib
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from groundling.errors import DataError, GroundlingError

log = logging.getLogger(__name__)

Source = str | Path | Mapping[str, Any] | Sequence[Any]  # a path, or what the file holds, already parsed

MAX_TEXT = 1 << 31  # bytes of a text or JSON file; the largest published annotations have half of it
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # JSON's way to write the halves of a character, paired or not
CHUNK = 1 << 20
LOCK, HOLDER = ".lock", ".locked-by"
MANIFEST = "manifest.json"  # beside the files of a model: the SHA-256 of each
MOST_LINES = 1000  # of a value between quotes
VALUE = re.compile(r'(?:"((?:[^"]|"")*)"|([^\t]*))\t')
OPEN = re.compile(r'(?:^|\t)"(?:[^"\t]|"")*$')  # ends in a value that has a first quote and no last one
CONTINUES, CLOSES = re.compile(r'(?:[^"\t]|"")*'), re.compile(r'(?:[^"\t]|"")*"(?:\t|[\r\n]*$)')
SEALED = (".json", ".safetensors")  # endings of files that a manifest covers

T = TypeVar("T")

# ---------------------------------------------------------------- writing


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` once all of it is on the disk.

    Whatever fails in between (a full disk, a kill) leaves the file that was there before. Several processes may write
    the same file: the last one wins. A link stays a link: the file that it names is replaced. What is no regular file
    (a device, a pipe) is written to and not replaced.
    """
    path = Path(os.path.realpath(path))
    kind = _mode(path)
    if kind is not None and not stat.S_ISREG(kind):
        with open(path, "wb") as file:
            yield file
        return
    part = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.part")  # short: the name of `path` may be the longest
    try:
        with open(part, "xb") as file:
            if kind is not None:
                with suppress(OSError):  # on a disk without permissions there is nothing to keep
                    os.chmod(part, stat.S_IMODE(kind))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _mode(path: Path) -> int | None:
    """Kind and permissions of what is there; None where there is nothing."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    """Names are on the disk, too. Not every system can do this with folders."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def saving(path: Path, kept: str = "") -> Iterator[None]:
    """An error of the disk while `path` is written, in one line."""
    try:
        yield
    except OSError as error:
        cure = "Make room, or allow writing there, and run the same command again"
        raise GroundlingError(f"cannot save {path}: {error.strerror or error}{kept}. {cure}") from error


@contextmanager
def saved(path: Path) -> Iterator[BinaryIO]:
    """`atomic`, with errors of the disk in one line."""
    with saving(path, "; the one saved before is intact" if path.is_file() else ""), atomic(path) as file:
        yield file


def save_text(path: Path, text: str) -> None:
    """Replace a file by a text in one step; what has no UTF-8 becomes a question mark."""
    with saved(path) as file:
        file.write(text.encode(errors="replace"))


@contextmanager
def filling(folder: Path, last: str = "") -> Iterator[Path]:
    """A folder to write to. Once all is there its files go into `folder`, in place of those of the same names.

    A full disk leaves what was there before. The file named `last` is removed first and comes last: whoever finds it
    finds the others.
    """
    part = folder / f".{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        with saving(folder):
            part.mkdir(parents=True)
            yield part
            written = [path.relative_to(part) for path in sorted(part.rglob("*")) if path.is_file()]
            if last:
                (folder / last).unlink(missing_ok=True)
            for name in sorted(written, key=lambda name: str(name) == last):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(part / name, folder / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


# ---------------------------------------------------------------- one writer at a time


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Only one process at a time is inside, of all that lock this folder; GroundlingError names the one that is.

    The lock goes with the process: it cannot outlive it. Where a disk has no locks, that is told and not enforced.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise GroundlingError(
            f"another process{_holder(folder)} is writing to {what} {folder}: wait for it, or choose another folder"
        ) from error
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise GroundlingError(f"cannot write to {what} {folder}: {error.strerror or error}") from error
        log.warning("%s cannot be locked (%s): let no other process write to it", folder, error)
        yield
        return
    try:
        with suppress(OSError):  # who holds it is a courtesy
            (folder / HOLDER).write_text(f"{os.getpid()} {platform.node()}", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink()
        lock.release()


def _holder(folder: Path) -> str:
    try:
        number, _, host = read_text(folder / HOLDER, 200).partition(" ")
    except DataError:
        return ""
    return f" ({number}{f' on {host}' if host.isprintable() else ''})" if number.isdecimal() else ""


# ---------------------------------------------------------------- manifests


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files of a model, and the manifest that vouches for them. A kill at any moment leaves a folder that loads.

    While they are replaced one by one the manifest holds the old sums beside the new ones.
    """
    sums = {name: [sha256(content).hexdigest()] for name, content in contents.items()}
    before = {name: of_file for name, of_file in (_manifest(folder) or {}).items() if (folder / name).exists()}
    both = {name: [*before.get(name, _sums(folder / name)), *of_file] for name, of_file in sums.items()}
    _write_manifest(folder, before | both)
    for name, content in contents.items():
        with saved(folder / name) as file:
            file.write(content)
    _write_manifest(folder, before | sums)


def write_manifest(folder: Path) -> None:
    """Seal the files of a model as they are now: `manifest.json` with the SHA-256 of each."""
    names = (path.name for path in folder.iterdir() if path.suffix in SEALED and path.name != MANIFEST)
    _write_manifest(folder, {name: _sums(folder / name) for name in sorted(names)})


def check_manifest(folder: Path, required: bool = False, names: Sequence[str] = ()) -> bool:
    """DataError unless every file that the manifest names is as it was written.

    False where there is no manifest, or one that does not name all of `names`.
    """
    sums = _manifest(folder)
    if sums is None:
        if required:
            raise DataError(
                f"{folder / MANIFEST} is missing, so nothing vouches for the model; install groundling anew"
            )
        return False
    for name, accepted in sums.items():
        if not (folder / name).is_file():
            raise DataError(f"{folder / name} is missing, and {MANIFEST} names it: copy the whole folder again")
        if not set(_sums(folder / name)) & set(accepted):
            raise DataError(
                f"{folder / name} is not the file that was written (its SHA-256 is not that of {MANIFEST}): copy the "
                f"folder again; if you changed it yourself, delete {MANIFEST}"
            )
    return sums.keys() >= set(names)


def _write_manifest(folder: Path, sums: Mapping[str, Sequence[str]]) -> None:
    with saved(folder / MANIFEST) as file:
        file.write(json.dumps({"format": 1, "sha256": sums}, indent=1).encode())


def _manifest(folder: Path) -> dict[str, list[str]] | None:
    """The accepted sums of each file, two while one is being replaced; None where there is no manifest."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    location = Location(path)
    rows = location.get(parse_json(read_text(path, 1 << 20), str(path)), "sha256", dict)
    for name in rows:
        if Path(name).name != name or name in ("", ".", ".."):
            raise location.error(f"{name!r} is not the name of a file of this folder")
        location.at(name).items(rows[name], str)
    return rows


def _sums(path: Path) -> list[str]:
    """The SHA-256 of a file, alone in a list; nothing where there is no file."""
    digest = sha256()
    with reading(path):
        try:
            file = open_regular(path)
        except FileNotFoundError:
            return []
        with file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return [digest.hexdigest()]


# ---------------------------------------------------------------- reading


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """DataError with the name of the file for an OSError while it is read."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading without waiting. OSError for what is no regular file: a pipe, a device, a folder.

    Pipes that the shell has opened for us (/dev/stdin, /dev/fd/63) are read.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        given = stat.S_ISFIFO(kind) and str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))
        if not (stat.S_ISREG(kind) or given):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if given:
            os.set_blocking(number, True)
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_bytes(path: str | Path, limit: int = MAX_TEXT) -> bytes:
    """What a regular file holds; DataError names it where it cannot be read or has more than `limit` bytes."""
    try:
        with reading(path), open_regular(path) as file:
            content = _read(file, limit + 1)
    except ValueError as error:
        raise DataError(f"{str(path)!r}: not the name of a file: {error}") from error
    except MemoryError as error:
        raise DataError(f"{path}: does not fit into memory") from error
    if len(content) > limit:
        raise DataError(f"{path}: more than {limit:,} bytes, at most so many are read; divide it")
    return content


def _read(file: BinaryIO, most: int) -> bytes:
    """Up to so many bytes. Room is made for what is there: `file.read(most)` would ask for all of it at once."""
    content = file.read(min(most, os.fstat(file.fileno()).st_size + 1))
    while len(content) < most and (more := file.read(min(most - len(content), CHUNK))):  # a pipe, or it grows
        content += more
    return content


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


def read_text(path: str | Path, limit: int = MAX_TEXT) -> str:
    """The text of a file; DataError where it is absent or not UTF-8."""
    return decode(read_bytes(path, limit), str(path))


def tab_rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of tab-separated lines, each with the number of its last line.

    A value that begins and ends with a quote, and whose other quotes are doubled, stands between quotes, as Excel
    writes it, and may have several lines; all other quotes are characters of the text.
    """
    held: list[str] = []  # lines whose last value may go on in the next one
    number = 0
    for number, line in enumerate(lines, start=1):
        if held and CLOSES.match(line):
            yield number, _values("".join([*held, line]))
            held = []
        elif held and len(held) < MOST_LINES and CONTINUES.fullmatch(line):
            held.append(line)
        else:
            yield from ((number - len(held) + i, _values(one)) for i, one in enumerate(held))
            held = [line] if OPEN.search(line) else []
            if not held:
                yield number, _values(line)
    yield from ((number - len(held) + i, _values(one)) for i, one in enumerate(held, start=1))


def _values(row: str) -> list[str]:
    values = VALUE.finditer(row.rstrip("\r\n") + "\t")
    return [one[2] if one[1] is None else one[1].replace('""', '"') for one in values]


def decode(content: bytes, name: str) -> str:
    """UTF-8, with or without its mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise DataError(f"{name}, line {line}: not UTF-8 (byte {byte:#04x}); save the file as UTF-8") from error


def parse_json(text: str, name: str, *, standard: bool = False) -> Any:
    """The value of one JSON text; DataError with the line and column of the first mistake.

    A key that occurs twice in one object is an error. `standard`: so are NaN and half characters, which JSON has not;
    but keys are not compared, which would double the time for large data sets.
    """
    try:
        if not standard:
            return json.loads(text, object_pairs_hook=_without_duplicates)
        value = json.loads(text, parse_constant=_no_constant)
        if HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # a ValueError where a string holds half a character
        return value
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{name}: not JSON: {error.msg} at {where}; is the file complete?") from error
    except _DuplicateKey as error:
        raise DataError(f"{name}: the key {error.args[0]!r} occurs twice in one object; keep one") from error
    except (RecursionError, ValueError) as error:  # nested too deep; an integer of thousands of digits
        raise DataError(f"{name}: not JSON that can be read: {error}") from error


class Location:
    """Where in a file we are; knows how to ask for a value and how to complain. Built lazily: only errors print it."""

    __slots__ = ("steps",)

    def __init__(self, *steps: object) -> None:
        self.steps = steps

    def at(self, *steps: object) -> Location:
        return Location(*self.steps, *steps)

    def error(self, message: str) -> DataError:
        name, *inside = (str(step) for step in self.steps)
        return DataError(f"{name}: {' / '.join(inside)}: {message}" if inside else f"{name}: {message}")

    def expect(self, value: Any, kind: type[T]) -> T:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"expected {_KINDS[kind]}, got {shown(value)}")
        return value

    def get(self, value: Any, key: str, kind: type[T]) -> T:
        """`value[key]` of an object, checked."""
        mapping = self.expect(value, dict)
        if key not in mapping:
            raise self.error(f"the key {key!r} is missing; there are {shown(sorted(map(str, mapping)))}")
        return self.at(key).expect(mapping[key], kind)

    def id(self, value: Any, key: str) -> str:
        """`value[key]`, the id of an image: an integer or a string, and 7 and "7" are the same."""
        identity = self.get(value, key, object)
        if isinstance(identity, bool) or not isinstance(identity, int | str):
            raise self.at(key).error(f"expected an integer or a string, got {identity!r:.80}")
        return str(identity)

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


def shown(value: Any, length: int = 80) -> str:
    """What a message shows of a value, however large or deep that is."""
    text = _SHORT.repr(value)
    return text if len(text) <= length else f"{text[: length - 3]}..."


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 40


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


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
