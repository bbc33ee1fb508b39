"""Weight files inside installed packages: found without importing the package, and checked before they are read.

A package on a registry may change or be replaced; the bytes of a weight file may not. Every file is pinned by its
SHA-256, which also goes into the fingerprint of the regions that it makes.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from groundling.errors import GroundlingError, MissingExtra


@dataclass(frozen=True)
class Pinned:
    """A file of a package: where it lies below the package's folder, what its bytes are, how to install it."""

    package: str
    path: str
    sha256: str
    install: str  # the pip command

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def find(self) -> Path:
        """Path of the file, its bytes as pinned; MissingExtra when it is not there, GroundlingError when it differs."""
        spec = importlib.util.find_spec(self.package)  # a top-level package: found, not executed
        folders = [] if spec is None else spec.submodule_search_locations or []
        for folder in folders:
            file = Path(folder) / self.path
            if file.is_file():
                return self._checked(file)
        raise MissingExtra(f"{self.name} of the package {self.package} is not installed; run: {self.install}")

    def _checked(self, file: Path) -> Path:
        found = sha256(file)
        if found != self.sha256:
            raise GroundlingError(
                f"{file}: SHA-256 is {found}, not {self.sha256}: not the file this version knows, so it is not loaded; "
                f"install it anew: {self.install}"
            )
        return file


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
