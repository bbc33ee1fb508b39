"""Weight files inside installed packages: found without importing the package, and checked before they are used.

A package on a registry may change or be replaced; the bytes of a weight file may not. Every file is pinned by its
SHA-256, which also goes into the fingerprint of the regions that it makes.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from groundling.errors import GroundlingError, MissingExtra

INSTALL = "pip install --force-reinstall 'groundling[photos]'"


@dataclass(frozen=True)
class Pinned:
    """A file of a package: where it lies below the package's folder, and what its bytes are."""

    package: str
    path: str
    sha256: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def read(self) -> bytes:
        """The bytes, as pinned; MissingExtra when the file is not there, GroundlingError when it is another."""
        path = self._find()
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise GroundlingError(
                f"{path}: SHA-256 is {digest}, not {self.sha256}: not the file that this version knows, so it is not "
                f"loaded; install anew: {INSTALL}"
            )
        return content

    def _find(self) -> Path:
        spec = importlib.util.find_spec(self.package)  # of a top-level package: found, not executed
        folders = [] if spec is None else spec.submodule_search_locations or []
        files = [Path(folder) / self.path for folder in folders]
        for file in files:
            if file.is_file():
                return file
        raise MissingExtra(f"{self.name} of the package {self.package} is not installed; run: {INSTALL}")
