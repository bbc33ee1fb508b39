"""The bytes of a region store. All numbers are little-endian; checksums are CRC-32.

regions.bin   a head, then one record per image in the order of writing, without padding:
    head      magic (8), length of the JSON, its CRC, JSON {format, fingerprint, layout}
    record    magic (4), length of the id, R, width, height, CRC of the body, CRC of this header and the id
              the id (UTF-8)
              the body: boxes f32 (R, 4), frame i32 (R), labels i32 (R, L), scores f32 (R, L), whole f16 (G),
              feats f16 (R, D), grid f16 (C, G): what a truncated read needs comes first
index.bin     a head whose JSON adds {images, regions, bytes, crc}, then tables over the images:
              offset u64 (n), sorted hashes of the ids u64 (n), ends of the ids u64 (n), R u32 (n),
              the image of each hash u32 (n), the ids, one after the other
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.regions import fingerprints
from groundling.tensors import Regions
from groundling.types import Fingerprint

FORMAT = 1
DATA_MAGIC, INDEX_MAGIC, RECORD_MAGIC = b"GRNDREG\n", b"GRNDIDX\n", b"REG\n"
HEAD = struct.Struct("<8sII")  # magic, length and CRC of the JSON
RECORD = struct.Struct("<4sIIffII")  # magic, length of the id, R, width, height, CRC of the body, CRC of all before
FP16_MAX = 65504.0
ID_MAX = 4096  # bytes; longer is damage


@dataclass(frozen=True)
class Layout:
    """What every image of a store has: D, L, the length of `whole` and the shape of `grid` (0 where absent).

    `words`: the words whose log-odds are the last numbers of `whole`, in order. They are no part of the bytes: the
    fingerprint of the source names them.
    """

    dim: int
    labels: int = 0
    whole: int = 0
    grid: tuple[int, int] = (0, 0)
    words: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def of(regions: Regions) -> Layout:
        whole = 0 if regions.whole is None else regions.whole.shape[-1]
        c, g = (0, 0) if regions.grid is None else regions.grid.shape[-2:]
        return Layout(regions.feats.shape[-1], regions.labels.shape[-1], whole, (c, g))

    def to_json(self) -> dict[str, Any]:
        return {"dim": self.dim, "labels": self.labels, "whole": self.whole, "grid": self.grid}

    def of_source(self, fingerprint: Fingerprint) -> Layout:
        """With the words of the source."""
        return replace(self, words=fingerprints.words_of(fingerprint))

    def front(self, r: int) -> int:
        """Bytes of a body before its region features."""
        return r * (20 + 8 * self.labels) + 2 * self.whole

    def body(self, r: int) -> int:
        return self.front(r) + 2 * r * self.dim + 2 * self.grid[0] * self.grid[1]


@dataclass(frozen=True)
class Header:
    """What precedes the body of a record."""

    id: str
    count: int
    size: tuple[float, float]
    crc: int
    length: int  # of the header itself, id included


# ---------------------------------------------------------------- heads


def pack_head(magic: bytes, head: dict[str, Any]) -> bytes:
    """Padded with spaces to a multiple of 8, so that the tables after it are aligned."""
    text = json.dumps(head, sort_keys=True, ensure_ascii=False).encode()
    text += b" " * (-(HEAD.size + len(text)) % 8)
    return HEAD.pack(magic, len(text), zlib.crc32(text)) + text


def head_length(start: bytes, magic: bytes, name: str) -> int | None:
    """Length of the head that begins with these bytes; None when they end before that is known."""
    if not start.startswith(magic[: len(start)]):
        raise DataError(f"{name} is not part of a region store of this program")
    if len(start) < HEAD.size:
        return None
    return HEAD.size + int(HEAD.unpack_from(start)[1])


def parse_head(head: bytes, name: str) -> dict[str, Any]:
    """The JSON of a complete head."""
    _, length, crc = HEAD.unpack_from(head)
    text = head[HEAD.size :]
    if len(text) != length or zlib.crc32(text) != crc:
        raise DataError(f"{name} is damaged at its beginning; make the store again")
    try:
        plain = dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} is damaged at its beginning: {error}") from error
    if plain.get("format") != FORMAT:
        raise DataError(f"{name} has format {plain.get('format')!r}, this program reads {FORMAT}: make the store again")
    return plain


def parse_layout(head: dict[str, Any], name: str) -> Layout:
    try:
        plain = head["layout"]
        c, g = plain["grid"]
        numbers = [plain["dim"], plain["labels"], plain["whole"], c, g]
        if not all(isinstance(x, int) and 0 <= x < 2**31 for x in numbers):
            raise ValueError(f"{numbers} are not sizes")
        return Layout(numbers[0], numbers[1], numbers[2], (c, g))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name} is damaged at its beginning: {type(error).__name__}: {error}") from error


def pack_data_head(fingerprint: Fingerprint, layout: Layout) -> bytes:
    plain = {"format": FORMAT, "fingerprint": fingerprints.to_json(fingerprint), "layout": layout.to_json()}
    return pack_head(DATA_MAGIC, plain)


# ---------------------------------------------------------------- records


def pack_record(id: str, regions: Regions) -> bytes:
    """The record of one image; its invalid (padded) rows are dropped. DataError names the image."""
    keep = regions.valid[0]
    labels, scores = regions.labels[0][keep], regions.scores[0][keep]
    body = b"".join(
        (
            _floats(id, "boxes", regions.boxes[0][keep]),
            _integers(id, "frame", regions.frame[0][keep]),
            _integers(id, "labels", labels),
            _floats(id, "scores", scores),
            b"" if regions.whole is None else _halves(id, "whole", regions.whole[0]),
            _halves(id, "feats", regions.feats[0][keep]),
            b"" if regions.grid is None else _halves(id, "grid", regions.grid[0]),
        )
    )
    name, (width, height) = _name(id), regions.size[0].tolist()
    if not (0 < width < inf and 0 < height < inf):
        raise DataError(f"image {id!r}: its size is {width} x {height}")
    header = RECORD.pack(RECORD_MAGIC, len(name), int(keep.sum()), width, height, zlib.crc32(body), 0)[:-4]
    return header + struct.pack("<I", zlib.crc32(name, zlib.crc32(header))) + name + body


def parse_record(start: bytes) -> Header | None:
    """The header of a record from its first bytes; None when they are not one (torn or damaged)."""
    if len(start) < RECORD.size:
        return None
    magic, length, count, width, height, crc, own = RECORD.unpack_from(start)
    name = start[RECORD.size : RECORD.size + length]
    if magic != RECORD_MAGIC or length > ID_MAX or len(name) < length:
        return None
    if zlib.crc32(name, zlib.crc32(start[: RECORD.size - 4])) != own:
        return None
    try:
        return Header(name.decode(), count, (width, height), crc, RECORD.size + length)
    except UnicodeDecodeError:
        return None


def parse_front(front: memoryview, r: int, layout: Layout) -> dict[str, NDArray[Any]]:
    """The arrays that precede the region features of a body."""
    n = layout.labels
    return {
        "boxes": np.frombuffer(front, "<f4", 4 * r).reshape(r, 4),
        "frame": np.frombuffer(front, "<i4", r, 16 * r),
        "labels": np.frombuffer(front, "<i4", r * n, 20 * r).reshape(r, n),
        "scores": np.frombuffer(front, "<f4", r * n, (20 + 4 * n) * r).reshape(r, n),
        "whole": np.frombuffer(front, "<f2", layout.whole, (20 + 8 * n) * r),
    }


def _name(id: str) -> bytes:
    try:
        return id.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"image id {id!r} is not text: {error}") from error


def _halves(id: str, name: str, x: torch.Tensor) -> bytes:
    peak = float(x.abs().max()) if x.numel() else 0.0
    if not peak <= FP16_MAX:
        raise DataError(f"image {id!r}: {name} holds {peak}, which half precision (at most {FP16_MAX:.0f}) cannot keep")
    return x.to(torch.float16).numpy().astype("<f2", copy=False).tobytes()


def _floats(id: str, name: str, x: torch.Tensor) -> bytes:
    if not bool(torch.isfinite(x).all()):
        raise DataError(f"image {id!r}: {name} holds numbers that are not finite")
    return x.to(torch.float32).numpy().astype("<f4", copy=False).tobytes()


def _integers(id: str, name: str, x: torch.Tensor) -> bytes:
    if x.numel() and int(x.abs().max()) >= 2**31:
        raise DataError(f"image {id!r}: {name} holds numbers beyond 32 bits")
    return x.to(torch.int32).numpy().astype("<i4", copy=False).tobytes()


# ---------------------------------------------------------------- the index


@dataclass(frozen=True)
class Index:
    """Where the images are. The tables are views of a memory map: nothing is read until it is asked for."""

    name: str  # of the file, for messages
    fingerprint: Fingerprint
    layout: Layout
    bytes: int  # length of regions.bin that belongs to these images
    regions: int  # of all images together
    crc: int
    tables: memoryview
    offsets: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    names: memoryview

    def __len__(self) -> int:
        return len(self.offsets)

    def id(self, row: int) -> str:
        start, end = int(self.ends[row - 1]) if row else 0, int(self.ends[row])
        if not start <= end <= len(self.names):
            raise DataError(f"{self.name} is damaged at image number {row + 1}")
        try:
            return str(self.names[start:end], "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{self.name} is damaged at image number {row + 1}") from error

    def find(self, id: str) -> int | None:
        """The row of an id, by binary search among the hashes."""
        key = hashed(id)
        at = int(np.searchsorted(self.hashes, np.uint64(key)))
        while at < len(self) and int(self.hashes[at]) == key:
            row = int(self.rows[at])
            if row < len(self) and self.id(row) == id:
                return row
            at += 1
        return None

    def sound(self) -> bool:
        """Do the tables have the checksum that they were written with? Reads them all."""
        return zlib.crc32(self.tables) == self.crc


def hashed(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def pack_index(
    fingerprint: Fingerprint,
    layout: Layout,
    length: int,
    ids: Sequence[str],
    offsets: Sequence[int],
    counts: Sequence[int],
) -> bytes:
    names = [id.encode() for id in ids]
    hashes = np.array([hashed(id) for id in ids], "<u8")
    order = np.argsort(hashes, kind="stable")
    ends = np.cumsum([len(name) for name in names], dtype="<u8")
    parts = (np.array(offsets, "<u8"), hashes[order], ends, np.array(counts, "<u4"), order.astype("<u4"))
    tables = b"".join([*(part.tobytes() for part in parts), *names])
    plain = {
        "format": FORMAT,
        "fingerprint": fingerprints.to_json(fingerprint),
        "layout": layout.to_json(),
        "images": len(ids),
        "regions": sum(counts),
        "bytes": length,
        "crc": zlib.crc32(tables),
    }
    return pack_head(INDEX_MAGIC, plain) + tables


def parse_index(buffer: memoryview, name: str) -> Index:
    """An index over a buffer; looks at the head and the lengths alone."""
    length = head_length(bytes(buffer[: HEAD.size]), INDEX_MAGIC, name)
    if length is None or length > len(buffer):
        raise DataError(f"{name} is damaged: it ends too early")
    head = parse_head(bytes(buffer[:length]), name)
    numbers = [head.get(key) for key in ("images", "regions", "bytes", "crc")]
    if not all(isinstance(x, int) and 0 <= x < 2**62 for x in numbers):
        raise DataError(f"{name} is damaged at its beginning")
    n, regions, size, crc = (int(x) for x in numbers if x is not None)
    tables = buffer[length:]
    if len(tables) < 32 * n:
        raise DataError(f"{name} is damaged: it ends too early")
    u8 = np.frombuffer(tables, "<u8", 3 * n)
    u4 = np.frombuffer(tables, "<u4", 2 * n, 24 * n)
    fingerprint = fingerprints.from_json(_mapping(head.get("fingerprint"), name))
    return Index(
        name=name,
        fingerprint=fingerprint,
        layout=parse_layout(head, name).of_source(fingerprint),
        bytes=size,
        regions=regions,
        crc=crc,
        tables=tables,
        offsets=u8[:n],
        hashes=u8[n : 2 * n],
        ends=u8[2 * n :],
        counts=u4[:n],
        rows=u4[n:],
        names=tables[32 * n :],
    )


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{name} is damaged at its beginning")
    return value
