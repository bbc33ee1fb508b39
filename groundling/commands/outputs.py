"""Where a command will write: looked at before the work begins, so that no work is lost for a mistyped folder."""

from __future__ import annotations

import os
from pathlib import Path

from groundling.errors import GroundlingError


def new_file(name: str) -> Path:
    """The file that will be written; its folder is made. GroundlingError if there can be no such file."""
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise GroundlingError(f"{path} is a folder: give the name of a file")
        place = path if path.exists() else path.parent
    except OSError as error:
        raise GroundlingError(f"{path} cannot be written ({error.strerror}): choose another place") from error
    return _allowed(path, place)


def new_folder(name: str) -> Path:
    """The folder that files will be written to, made where it is not there."""
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GroundlingError(f"{path} cannot be made a folder ({error.strerror}): choose another place") from error
    return _allowed(path, path)


def file_name(id: str, ending: str) -> str:
    """A file name for an id, another for every other: what no name may hold is written as in an address, / as %2F."""
    escaped = "".join(f"%{ord(c):02X}" if c in "%/\\" or not c.isprintable() else c for c in id)
    return (f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped) + ending


def _allowed(path: Path, place: Path) -> Path:
    if not os.access(place, os.W_OK):
        raise GroundlingError(f"{path} cannot be written (no permission): choose another place")
    return path
