"""Bottom-up-attention TSV: one image per line, arrays as base64.

Columns by their number: six (image_id image_w image_h num_boxes boxes features), as Anderson et al. published them, or
ten (img_id img_h img_w objects_id objects_conf attrs_id attrs_conf num_boxes boxes features), as LXMERT did; or as the
first line names them. Arrays are float32; objects_id and attrs_id are int64. Read line by line.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from groundling.errors import DataError
from groundling.files import open_regular, reading
from groundling.regions.importers.raw import MAX_BYTES, Array, Entry, Raw, first

FORMAT = "tsv"
LOOKS_FOR = "a .tsv file of bottom-up attention (6 columns) or LXMERT (10 columns), or a folder of them"

SIX = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
TEN = (
    *("img_id", "img_h", "img_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf"),
    *("num_boxes", "boxes", "features"),
)
LINE = 4 * MAX_BYTES // 3


def claims(path: Path) -> bool:
    return bool(_files(path)) if path.is_dir() else ".tsv" in path.suffixes


def entries(path: Path) -> Iterator[Entry]:
    files = _files(path)
    total, before = sum(file.stat().st_size for file in files), 0
    for file in files:
        columns: Sequence[str] | None = None
        with _opened(file) as lines:
            number = 0
            while line := lines.readline(LINE):
                number += 1
                where = f"{file}, line {number}"
                if len(line) == LINE:
                    raise DataError(f"{where}: longer than {LINE:,} bytes; this is not a TSV of regions")
                fields = line.rstrip(b"\r\n").split(b"\t")
                if columns is None:
                    columns = _columns(fields, where)
                    if fields[0].decode("utf-8", "replace") in columns:
                        continue
                share = (before + lines.tell()) / total
                yield Entry(_id(fields), where, share, partial(_decode, columns, fields, where))
        before += file.stat().st_size


def _opened(file: Path) -> BinaryIO:
    with reading(file):
        return open_regular(file)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if ".tsv" in file.suffixes and file.is_file())
    return [path]


def _columns(fields: Sequence[bytes], where: str) -> Sequence[str]:
    names = [field.decode("utf-8", "replace") for field in fields]
    if "features" in names and "boxes" in names and names[0] in ("image_id", "img_id"):
        return names
    if len(fields) in (len(SIX), len(TEN)):
        return SIX if len(fields) == len(SIX) else TEN
    raise DataError(f"{where}: {len(fields)} columns; expected {LOOKS_FOR}, or a first line that names the columns")


def _id(fields: Sequence[bytes]) -> str:
    return fields[0].decode("utf-8", "replace")


def _decode(columns: Sequence[str], fields: Sequence[bytes], where: str) -> Raw:
    if len(fields) != len(columns):
        raise DataError(f"{where}: {len(fields)} columns instead of {len(columns)}; the file may be cut short")
    row = dict(zip(columns, fields, strict=True))
    count = _integer(row, "num_boxes", where)
    width = _integer(row, "image_w" if "image_w" in row else "img_w", where)
    height = _integer(row, "image_h" if "image_h" in row else "img_h", where)
    boxes, feats = _array(row, "boxes", "<f4", where), _array(row, "features", "<f4", where)
    if count < 1 or len(boxes) % 4 or len(boxes) // 4 < count or len(feats) % (len(boxes) // 4):
        raise DataError(f"{where}: {count} boxes do not fit {len(boxes)} coordinates and {len(feats)} features")
    held = len(boxes) // 4
    labels = _array(row, "objects_id", "<i8", where) if "objects_id" in row else None
    scores = _array(row, "objects_conf", "<f4", where) if "objects_conf" in row else None
    raw = Raw(feats.reshape(held, -1), boxes.reshape(held, 4), (width, height), labels=labels, scores=scores)
    return first(raw, count, where)


def _integer(row: Mapping[str, bytes], name: str, where: str) -> int:
    match = re.fullmatch(rb"\s*([0-9]{1,9})\s*", row.get(name, b"missing"))
    if match is None:
        raise DataError(f"{where}: {name} is {row.get(name, b'missing')[:40]!r}, not a number of up to nine digits")
    return int(match[1])


def _array(row: Mapping[str, bytes], name: str, kind: str, where: str) -> Array:
    try:
        plain = base64.b64decode(row[name], validate=True)
        return np.frombuffer(plain, kind)
    except (KeyError, binascii.Error, ValueError) as error:
        raise DataError(f"{where}: {name} is not base64 of {kind[1:]} numbers: {error}") from error
