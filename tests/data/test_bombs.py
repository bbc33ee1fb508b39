"""Small files that would take all memory or all time: refused in a moment, by name."""

from __future__ import annotations

import gzip
import os
import pickle
import time
import zipfile
from pathlib import Path

import pytest

from groundling.data.dataset import load
from groundling.data.flickr30k_entities import unmark
from groundling.data.plain_pickle import read_plain_pickle
from groundling.errors import DataError
from groundling.text import annotate
from groundling.text.annotate import Tagger


@pytest.mark.parametrize("name", ["captions.csv", "dataset_x.json", "a.zip", "captions_val.json", "refs(unc).p"])
def test_a_pipe_in_a_data_set_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError):
        load(tmp_path, annotated=False)


@pytest.mark.parametrize(
    "content", [b"\x80\x02]r\xff\xff\xff\x0f.", b"(lp99999999999\n.", b"\x80\x04]\x96" + b"\xff" * 8]
)
def test_a_pickle_that_asks_for_memory_is_refused_before_it_runs(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.p").write_bytes(content)
    with pytest.raises(DataError, match="x.p: not a pickle of plain data"):
        read_plain_pickle(tmp_path / "x.p")


def test_shared_lists_are_refused(tmp_path: Path) -> None:
    """Forty lists, each of ten times the one before: 10^40 to whoever walks through all."""
    value: list[object] = ["ha"]
    for _ in range(15):
        value = [value] * 10
    (tmp_path / "x.p").write_bytes(pickle.dumps(value))
    with pytest.raises(DataError, match="the same list stands in two places"):
        read_plain_pickle(tmp_path / "x.p")


def test_a_tuple_that_stands_in_a_million_places_is_refused(tmp_path: Path) -> None:
    """Two megabytes that hold 10^11 values to whoever walks through all."""
    steps = b"\x80\x02]((" + b"N" * 100_000 + b"tq\x00" + b"h\x00" * 1_000_000 + b"e."
    (tmp_path / "x.p").write_bytes(steps)
    with pytest.raises(DataError, match="its strings and tuples are 50 times as long as the file"):
        read_plain_pickle(tmp_path / "x.p")
    (tmp_path / "x.p").write_bytes(pickle.dumps([(box := (1, 2, 3, 4)), box, box]))
    assert read_plain_pickle(tmp_path / "x.p") == [(1, 2, 3, 4)] * 3


@pytest.mark.parametrize("protocol", range(5))
def test_plain_pickles_of_every_protocol_are_read(protocol: int, tmp_path: Path) -> None:
    value = [{"ref_id": i, "sent": "é" * i, "box": [0.5, -1, 2**40, None, True, (1,)]} for i in range(500)]
    (tmp_path / "x.p").write_bytes(pickle.dumps(value, protocol))
    assert read_plain_pickle(tmp_path / "x.p") == value


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_lies_about_a_size_is_not_unpacked(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("Sentences/1.txt", b" " * 30_000_000)
        archive.writestr("Annotations/1.xml", b"<a/>")
    data = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(data.replace((30_000_000).to_bytes(4, "little"), (30).to_bytes(4, "little")))
    with pytest.raises(DataError):
        load(tmp_path / "a.zip", annotated=False)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_is_named(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("Sentences/1.txt", bytes(range(32, 127)) * 50)
        archive.writestr("Annotations/1.xml", bytes(range(32, 127)) * 50)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    for at in (60, 70, 80, 90, len(data) // 2, len(data) // 2 + 10):
        data[at] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(DataError):
        load(tmp_path / "a.zip", annotated=False)


def test_unclosed_marks_take_no_square_time() -> None:
    start = time.process_time()
    assert unmark("[/EN#1/a" * 50_000)[1] == []
    assert time.process_time() - start < 5


@pytest.mark.parametrize("side", [10**400, -1, 10**7])
def test_an_image_wider_than_any_is_refused(side: int, tmp_path: Path) -> None:
    (tmp_path / "captions_val.json").write_text(
        f'{{"images": [{{"id": 1, "file_name": "a.jpg", "width": {side}, "height": 5}}],'
        ' "annotations": [{"id": 1, "image_id": 1, "caption": "A dog."}]}'
    )
    with pytest.raises(DataError, match="captions_val.json: image 1: width: .*expected a number from 0 to 1,000,000"):
        load(tmp_path, annotated=False)


# ---------------------------------------------------------------- the cache of tags, which travels with the data

TAGGER = Tagger("en", "1")


@pytest.mark.parametrize("content", [b"[" * 2_000_000, b"\x00" * ((1 << 28) + 1), b"[]," * 10_000_000])
def test_a_cache_of_tags_that_would_fill_memory_is_left(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(content, 1))
    assert annotate._read(tmp_path / "a.gz", TAGGER) == {}


def test_a_pipe_in_place_of_the_cache_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gz")
    assert annotate._read(tmp_path / "a.gz", TAGGER) == {}


@pytest.mark.parametrize("bounds", [[2, 1], [1, 1], [0, 2, 1, 3], [0, 4], [-1, 1], [0], [0, True]])
def test_noun_phrases_that_no_tagger_writes_are_tagged_again(bounds: list[int]) -> None:
    assert annotate._fits(["DT NN VBZ", "a dog run", [0, 2]], 3)
    assert not annotate._fits(["DT NN VBZ", "a dog run", bounds], 3)
