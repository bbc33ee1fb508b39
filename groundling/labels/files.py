"""Files wherever they are: on this machine, or behind an address such as s3://bucket/key or memory://folder (fsspec).

A file is written whole or not at all. Images may also be members of a tar, `photos.tar::a.jpg`, or rows of a Parquet
file, `photos.parquet::17`.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import IO, Any

from groundling.errors import DataError, MissingExtra
from groundling.files import saved
from groundling.images import SUFFIXES

INSIDE = "::"  # between a container and what is in it
MAX_BYTES = 256_000_000  # of one image file
OPEN_TARS = 8  # that images were read from last
MAGIC = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"RIFF": ".webp", b"GIF8": ".gif", b"BM": ".bmp"}

_open_tars: dict[str, tuple[IO[bytes], tarfile.TarFile]] = {}  # the one that was read last is at the end
_tars = Lock()  # a tar has one place to read from, whichever thread asks


def remote(path: str) -> bool:
    """Is this an address and not a path?"""
    return "://" in path


def join(folder: str, *names: str) -> str:
    return "/".join([folder.rstrip("/"), *names]) if remote(folder) else str(Path(folder, *names))


def exists(path: str) -> bool:
    if not remote(path):
        return Path(path).exists()
    system, inner = _system(path)
    return bool(system.exists(inner))


def is_folder(path: str) -> bool:
    if not remote(path):
        return Path(path).is_dir()
    system, inner = _system(path)
    return bool(system.isdir(inner))


def listed(folder: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a folder that end so, in order of name."""
    if not remote(folder):
        return sorted(str(file) for file in Path(folder).iterdir() if file.name.endswith(endings))
    system, inner = _system(folder)
    names = (str(name) for name in system.ls(inner, detail=False))
    return sorted(str(system.unstrip_protocol(name)) for name in names if name.endswith(endings))


def opened(path: str) -> IO[bytes]:
    """A file to read; DataError names one that cannot be."""
    try:
        if not remote(path):
            return open(path, "rb")
        system, inner = _system(path)
        found: IO[bytes] = system.open(inner, "rb")
        return found
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def write(path: str, content: bytes) -> None:
    """Replace a file in one step: whoever looks sees the old one or the new one, whole."""
    if remote(path):
        system, inner = _system(path)
        system.makedirs(str(PurePosixPath(inner).parent), exist_ok=True)
        system.pipe_file(inner, content)  # object stores show an object once all of it has come
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with saved(target) as file:
        file.write(content)


def remove_parts(folder: str) -> None:
    """Delete what processes that were killed left of files that they were writing; no other may be at work there."""
    if not remote(folder):
        for part in Path(folder).glob(".*.part"):
            part.unlink(missing_ok=True)


def parsed(content: bytes, path: str) -> Any:
    """JSON of a file that labelling wrote; DataError where it is damaged."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); label into another folder") from error


def upload(folder: Path, target: str) -> None:
    """Copy a folder of this machine to an address."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        write(join(target, *file.relative_to(folder).parts), file.read_bytes())


def _system(path: str) -> tuple[Any, str]:
    import fsspec

    scheme = path.split("://", 1)[0]
    try:
        system, inner = fsspec.core.url_to_fs(path)
    except ValueError as error:
        raise DataError(f"{path}: {error}; known are paths, and addresses that fsspec opens") from error
    except ImportError as error:
        raise MissingExtra(f"{path}: {scheme} needs another package: {error}") from error
    return system, str(inner)


# ---------------------------------------------------------------- images


def content(media: str) -> bytes:
    """The bytes of an image file, wherever it is; DataError names one that cannot be read."""
    container, inside, name = media.rpartition(INSIDE)
    if inside and container.endswith(".tar"):
        return _member(container, name)
    if inside and container.endswith(".parquet"):
        return _row(container, name)
    if not media:
        raise DataError("an image without a file: its data set came without images")
    with opened(media) as file:
        return bounded(file, media)


def bounded(file: IO[bytes], name: str) -> bytes:
    found = file.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise DataError(f"{name}: more than {MAX_BYTES:,} bytes; make the image smaller")
    return found


def suffix(media: str, start: bytes = b"") -> str:
    """The ending of an image's file name, by its name, else by its first bytes."""
    named = PurePosixPath(media.rpartition(INSIDE)[2] or media).suffix.lower()
    if named in SUFFIXES:
        return named
    return next((ending for magic, ending in MAGIC.items() if start.startswith(magic)), ".jpg")


def file_name(id: str) -> str:
    """A file name for an image, without ending: its id, with a digest where the id cannot be a name."""
    plain = re.sub(r"[^\w.-]", "_", id, flags=re.ASCII)[:100].lstrip(".")
    digest = blake2b(id.encode(), digest_size=4).hexdigest()
    return plain if plain == id else f"{plain}-{digest}"


def copy_image(media: str, folder: Path, stem: str) -> str:
    """Put an image into a folder, by a hard link where that can be; returns its file name."""
    folder.mkdir(parents=True, exist_ok=True)
    if remote(media) or INSIDE in media:
        found = content(media)
        name = stem + suffix(media, found[:8])
        (folder / name).write_bytes(found)
        return name
    name = stem + suffix(media)
    target = folder / name
    target.unlink(missing_ok=True)
    try:
        os.link(media, target)
    except OSError:
        try:
            shutil.copyfile(media, target)
        except OSError as error:
            raise DataError(f"{media}: cannot be copied ({error.strerror or error})") from error
    return name


def members(tar: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of a tar, in order; DataError where it is damaged."""
    try:
        with opened(tar) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                if member.isfile() and (inner := archive.extractfile(member)) is not None:
                    yield member.name, bounded(inner, f"{tar}{INSIDE}{member.name}")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{tar}: a damaged tar ({error}); fetch it again") from error


def _tar(path: str) -> tarfile.TarFile:
    """Open; so stay the tars that were read last."""
    if path in _open_tars:
        _open_tars[path] = _open_tars.pop(path)  # the last to be closed
        return _open_tars[path][1]
    file = opened(path)
    try:
        archive = tarfile.TarFile.open(fileobj=file, mode="r:*")
    except (tarfile.TarError, EOFError, OSError) as error:
        file.close()
        raise DataError(f"{path}: a damaged tar ({error}); fetch it again") from error
    close_tars(OPEN_TARS - 1)
    _open_tars[path] = file, archive
    return archive


@atexit.register
def close_tars(but: int = 0) -> None:
    """Close the tars that images were read from, but for the last so many."""
    while len(_open_tars) > but:
        for one in reversed(_open_tars.pop(next(iter(_open_tars)))):
            one.close()


def _member(tar: str, name: str) -> bytes:
    with _tars:
        try:
            found = _tar(tar).extractfile(name)
        except (KeyError, tarfile.TarError, OSError) as error:
            raise DataError(f"{tar}: no file {name} in it ({error})") from error
        if found is None:
            raise DataError(f"{tar}: {name} is no file")
        return bounded(found, f"{tar}{INSIDE}{name}")


@lru_cache(maxsize=2)
def _images_of(parquet: str, group: int) -> list[Any]:
    from groundling.labels.parquet import Table

    return Table.of(parquet).images(group)


def _row(parquet: str, name: str) -> bytes:
    from groundling.labels.parquet import Table

    try:
        group, row = Table.of(parquet).at(int(name))
        return bytes(_images_of(parquet, group)[row])
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"{parquet}: no image in row {name}") from error
