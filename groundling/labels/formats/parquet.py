"""Parquet: one row an image, its bytes inside as `datasets` has them ({bytes, path}), and all that is known of it.

Holds everything, left-out labels too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from groundling.errors import DataError, MissingExtra
from groundling.labels import files
from groundling.labels.formats.parts import parsing, with_labels
from groundling.labels.label import LabelledImage

FILE = "labels.parquet"
ROWS = 256  # images of a row group, which is what is in memory


def write(images: Iterable[LabelledImage], folder: Path) -> None:
    pa, pq = _pyarrow()
    schema = _schema(pa)
    rest = iter(with_labels(images))
    with pq.ParquetWriter(folder / FILE, schema) as file:
        while some := list(islice(rest, ROWS)):
            file.write_table(pa.Table.from_pylist([_row(image) for image in some], schema=schema))


def read(folder: Path) -> Iterator[LabelledImage]:
    """From a folder with `labels.parquet`, or such a file; of images inside it, `media` names file and row."""
    pa, pq = _pyarrow()
    path = folder / FILE if folder.is_dir() else folder
    try:
        number = 0
        for batch in pq.ParquetFile(path).iter_batches(ROWS):
            for row in batch.to_pylist():
                with parsing(f"{path}, row {number}"):
                    image = LabelledImage.from_dict(_unpacked(row, f"{path}{files.INSIDE}{number}"))
                yield image
                number += 1
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({error})") from error


def _schema(pa: Any) -> Any:
    box = pa.struct(
        [("box", pa.list_(pa.float64())), ("score", pa.float64()), ("confidence", pa.float64())],
    )
    mention = pa.struct([("caption", pa.int32()), ("span", pa.list_(pa.int32())), ("text", pa.string())])
    label = [("phrase", pa.string()), ("head", pa.string()), ("mentions", pa.list_(mention))]
    label += [("boxes", pa.list_(box)), ("evidence", pa.float64()), ("left_out", pa.string())]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    fields = [("id", pa.string()), ("image", image), ("size", pa.list_(pa.int32()))]
    fields += [("captions", pa.list_(pa.string())), ("labels", pa.list_(pa.struct(label)))]
    return pa.schema([*fields, ("split", pa.string())])


def _row(image: LabelledImage) -> dict[str, Any]:
    row = image.to_dict()
    content = files.content(image.media)
    return row | {"image": {"bytes": content, "path": files.file_name(image.id) + files.suffix(image.media, content)}}


def _unpacked(row: dict[str, Any], media: str) -> dict[str, Any]:
    labels = [label | {"left_out": label["left_out"] or ""} for label in row["labels"]]
    return row | {"image": media, "labels": labels, "split": row["split"] or ""}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'groundling[label]'") from error
    return pyarrow, pyarrow.parquet
