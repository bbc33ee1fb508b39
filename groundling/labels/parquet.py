"""Tables of captioned images in Parquet: a column of images (bytes, {bytes, path} or paths) and one of captions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from groundling.errors import DataError, MissingExtra
from groundling.labels import files

IMAGE = ("image", "images", "img", "jpg", "image_bytes", "image_path", "path", "file_name", "file", "url")
CAPTION = ("caption", "captions", "text", "sentence", "sentences", "txt", "alt_text", "description")
ID = ("id", "image_id", "key", "__key__")


@dataclass(frozen=True)
class Table:
    """A Parquet file and which of its columns say what."""

    path: str
    file: Any  # pyarrow.parquet.ParquetFile
    image: str
    caption: str
    id: str  # empty: rows are numbered

    @staticmethod
    @lru_cache(maxsize=8)
    def of(path: str) -> Table:
        """DataError where it is no Parquet, or has no such columns."""
        pyarrow, parquet = _pyarrow()
        try:
            file = parquet.ParquetFile(files.opened(path))
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a Parquet file ({error})") from error
        names = list(file.schema_arrow.names)
        found = [next((n for n in known if n in names), "") for known in (IMAGE, CAPTION, ID)]
        if not found[0] or not found[1]:
            raise DataError(f"{path}: expected columns image and caption, got {', '.join(names)[:100]}")
        return Table(path, file, *found)

    @property
    def groups(self) -> int:
        return int(self.file.num_row_groups)

    def start(self, group: int) -> int:
        """The number of the first row of a row group."""
        return sum(map(self.size, range(group)))

    def size(self, group: int) -> int:
        """The number of rows of a row group."""
        return int(self.file.metadata.row_group(group).num_rows)

    def at(self, row: int) -> tuple[int, int]:
        """Row group and place in it of a row; IndexError where there is no such row."""
        for group in range(self.groups):
            n = self.size(group)
            if 0 <= row < n:
                return group, row
            row -= n
        raise IndexError(row)

    def rows(self, group: int) -> list[dict[str, Any]]:
        """The rows of a group: image (bytes or a path), captions, id."""
        names = [name for name in (self.image, self.caption, self.id) if name]
        table = self._read(group, names)
        return [
            {"image": _image(row[self.image]), "captions": row[self.caption], "id": row.get(self.id)} for row in table
        ]

    def images(self, group: int) -> list[bytes]:
        found = (_image(row[self.image]) for row in self._read(group, [self.image]))
        return [one if isinstance(one, bytes) else files.content(self.beside(one)) for one in found]

    def beside(self, path: str) -> str:
        """A path as a row has it: absolute, an address, or relative to the file."""
        if files.remote(path) or Path(path).is_absolute():
            return path
        folder = self.path.rsplit("/", 1)[0] if "/" in self.path else "."
        return files.join(folder, path)

    def _read(self, group: int, names: list[str]) -> list[dict[str, Any]]:
        pyarrow, _ = _pyarrow()
        try:
            return list(self.file.read_row_group(group, columns=names).to_pylist())
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: row group {group} is damaged ({error})") from error


def _image(value: Any) -> bytes | str:
    """Bytes or a path of what a row has; no bytes where it has neither."""
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    return value if isinstance(value, bytes | str) and value else b""


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'groundling[label]'") from error
    return pyarrow, pyarrow.parquet
