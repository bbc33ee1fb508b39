"""The region store: what goes in comes out, whatever happens to the process, the disk or the files."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import resource
import threading
import time
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundling.errors import DataError, GroundlingError, RegionMismatch
from groundling.files import LOCK
from groundling.regions import records
from groundling.regions.files import DATA, INDEX
from groundling.regions.fingerprints import require
from groundling.regions.records import Layout
from groundling.regions.store import Store, Writer
from groundling.tensors import Regions
from groundling.types import Fingerprint

MADE_BY = Fingerprint("test", "1", 8, {"boxes": 4, "scales": [1, 2]}, {"w.bin": "ab" * 32}, ("cat", "dog"))


def some(seed: int, r: int | None = None, rich: bool = True) -> Regions:
    g = torch.Generator().manual_seed(seed)
    r = seed % 5 + 1 if r is None else r
    more = {}
    if rich:
        more = {
            "frame": torch.randint(0, 10, (r,), generator=g),
            "labels": torch.randint(-1, 2, (r, 2), generator=g),
            "scores": torch.rand(r, 2, generator=g),
            "whole": torch.randn(5, generator=g),
            "grid": torch.randn(3, 4, generator=g),
        }
    boxes = torch.rand(r, 4, generator=g) * 100
    return Regions.of(torch.randn(r, 8, generator=g).half().float(), boxes, (640, 481), **more)


def write(path: Path, seeds: range, rich: bool = True) -> None:
    with Writer(path, MADE_BY) as writer:
        for seed in seeds:
            if f"image {seed}" not in writer.done:
                writer.add(f"image {seed}", some(seed, rich=rich))


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def assert_equal(a: Regions, b: Regions) -> None:
    for field in fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        assert (x is None) == (y is None), field.name
        if x is not None:
            assert x.dtype == y.dtype and torch.equal(x, y), field.name


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "s"
    write(path, range(12))
    return path


def copy_of(path: Path, to: Path) -> Path:
    to.mkdir()
    for name, data in content(path).items():
        (to / name).write_bytes(data)
    return to


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("rich", [True, False])
def test_every_half_precision_number_comes_back_bit_by_bit(tmp_path: Path, rich: bool) -> None:
    write(tmp_path, range(12), rich)
    store = Store.open(tmp_path)
    for seed in range(12):
        given = some(seed, rich=rich)
        back = store[f"image {seed}"]
        assert torch.equal(back.feats, given.feats)
        if rich:
            assert given.whole is not None and given.grid is not None
            given = replace(given, whole=given.whole.half().float(), grid=given.grid.half().float())
        assert_equal(back, given)


def test_all_finite_half_precision_bit_patterns_survive(tmp_path: Path) -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 8)
    with Writer(tmp_path, MADE_BY) as writer:
        writer.add("all", Regions.of(torch.from_numpy(halves).float(), torch.zeros(len(halves), 4), (1, 1)))
    back = Store.open(tmp_path)["all"].feats[0].half().numpy()
    assert (back.view(np.uint16) == halves.view(np.uint16)).all()


def test_a_batch_equals_the_stack_of_its_images(finished: Path) -> None:
    store = Store.open(finished)
    ids = ["image 3", "image 0", "image 11", "image 3"]
    assert_equal(store.batch(ids), Regions.stack([store[id] for id in ids]))


def test_a_limit_keeps_the_first_regions_of_each_image(tmp_path: Path) -> None:
    with Writer(tmp_path / "s", MADE_BY) as writer:
        for i in range(5):
            writer.add(f"image {i}", replace(some(i), frame=torch.zeros(1, i + 1, dtype=torch.int64)))
    store = Store.open(tmp_path / "s")
    ids = [f"image {i}" for i in range(5)]  # 1 to 5 regions
    cut, full = store.batch(ids, limit=3), store.batch(ids)
    assert cut.feats.shape[1] == 3
    assert cut.valid.sum(1).tolist() == [1, 2, 3, 3, 3]
    for name in ("feats", "boxes", "valid", "frame", "labels", "scores"):
        assert torch.equal(getattr(cut, name), getattr(full, name)[:, :3])
    assert torch.equal(cut.grid, full.grid)  # type: ignore[arg-type]


def test_a_limit_is_of_each_frame_of_a_clip(tmp_path: Path) -> None:
    """A clip of 3 frames with 4 regions each, one of 2 frames, and an image."""
    with Writer(tmp_path / "s", MADE_BY) as writer:
        for id, frames in (("three", 3), ("two", 2), ("image", 1)):
            writer.add(id, replace(some(1, 4 * frames), frame=(torch.arange(4 * frames) % frames)[None]))
    store = Store.open(tmp_path / "s")
    ids = ["image", "three", "two"]
    cut = store.batch(ids, limit=2)
    assert cut.valid.sum(1).tolist() == [2, 6, 4]
    assert cut.frame.tolist() == [[0] * 6, [0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, 0]]
    same = store.batch(ids).of_each_frame(2)  # as where regions were just made
    assert torch.equal(same.valid, cut.valid) and torch.equal(same.feats, cut.feats)
    assert torch.equal(store.batch(ids, limit=99).valid, store.batch(ids).valid)


def test_a_frame_with_many_regions_does_not_take_the_places_of_one_with_few(tmp_path: Path) -> None:
    """Frame 0 has 1 region, frame 1 has 5, frame 2 has 3; of each at most 2, although 2 x 3 frames were 6."""
    frame = torch.tensor([[0, 1, 2, 1, 2, 1, 2, 1, 1]])
    with Writer(tmp_path / "s", MADE_BY) as writer:
        writer.add("clip", replace(some(1, 9), frame=frame))
    store = Store.open(tmp_path / "s")
    assert store.batch(["clip"], limit=2).frame.tolist() == [[0, 1, 2, 1, 2]]
    whole = store["clip"].of_each_frame(2)
    assert whole.frame[whole.valid].tolist() == [0, 1, 2, 1, 2]
    assert store.batch(["clip"], limit=3).frame.tolist() == [frame[0, :7].tolist()]


def test_a_store_tells_what_it_holds_in_the_order_of_writing(finished: Path) -> None:
    store = Store.open(finished)
    assert len(store) == 12 and list(store.ids) == [f"image {i}" for i in range(12)]
    assert store.ids[-1] == "image 11" and store.ids[1:3] == ["image 1", "image 2"]
    assert "image 4" in store and "image 12" not in store and 4 not in store
    assert store.fingerprint == MADE_BY
    assert store.layout == Layout(8, 2, 5, (3, 4))
    assert store.regions == sum(i % 5 + 1 for i in range(12))


def test_padding_of_the_given_regions_is_not_stored(tmp_path: Path) -> None:
    both = Regions.stack([some(0), some(4)])  # 1 and 5 regions
    with Writer(tmp_path, MADE_BY) as writer:
        writer.add("padded", both[:1])
    assert Store.open(tmp_path)["padded"].feats.shape == (1, 1, 8)


def test_ids_of_any_script_and_length_are_found(tmp_path: Path) -> None:
    ids = ["a", "ab", "żółć/1", "猫", " ", "x" * 4096, "a\n"]
    with Writer(tmp_path, MADE_BY) as writer:
        for i, id in enumerate(ids):
            writer.add(id, some(i))
    store = Store.open(tmp_path)
    for i, id in enumerate(ids):
        assert torch.equal(store[id].feats, some(i).feats)


def test_an_unknown_id_is_named(finished: Path) -> None:
    with pytest.raises(DataError, match="'nobody' is not in the region store"):
        Store.open(finished)["nobody"]


def test_a_batch_of_nothing_is_refused(finished: Path) -> None:
    with pytest.raises(ValueError, match="at least one image"):
        Store.open(finished).batch([])


def test_an_empty_store_can_be_made_and_opened(tmp_path: Path) -> None:
    write(tmp_path, range(0))
    store = Store.open(tmp_path)
    assert len(store) == 0 and "x" not in store and list(store.check()) == []


def test_two_ids_with_the_same_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "hashed", lambda id: 7)
    write(tmp_path, range(4))
    store = Store.open(tmp_path)
    assert torch.equal(store["image 2"].feats, some(2).feats) and "other" not in store


def test_a_store_can_be_pickled_for_other_processes(finished: Path) -> None:
    again = pickle.loads(pickle.dumps(Store.open(finished)))
    assert torch.equal(again["image 5"].feats, some(5).feats)


def test_threads_and_forked_processes_may_share_a_store(finished: Path) -> None:
    store = Store.open(finished)
    wrong: list[int] = []

    def read() -> None:
        for i in [i for _ in range(30) for i in range(12)]:
            if not torch.equal(store[f"image {i}"].feats, some(i).feats):
                wrong.append(i)

    process = multiprocessing.get_context("fork").Process(target=lambda: (read(), os._exit(len(wrong))))
    process.start()
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.join(60)
    assert not wrong and process.exitcode == 0


# ---------------------------------------------------------------- what cannot be kept


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 65505.0, -7e4])
@pytest.mark.parametrize("name", ["feats", "whole", "grid"])
def test_numbers_beyond_half_precision_name_the_image(tmp_path: Path, name: str, value: float) -> None:
    regions = some(3)
    getattr(regions, name).view(-1)[-1] = value
    with Writer(tmp_path, MADE_BY) as writer:
        with pytest.raises(DataError, match=f"image 'bad': {name}"):
            writer.add("bad", regions)
        writer.add("good", some(1))
    assert list(Store.open(tmp_path).ids) == ["good"]


@pytest.mark.parametrize(
    ("regions", "says"),
    [
        (replace(some(1), boxes=torch.full((1, 2, 4), float("nan"))), "boxes"),
        (replace(some(1), valid=torch.zeros(1, 2, dtype=torch.bool)), "no regions"),
        (replace(some(1), feats=torch.zeros(1, 2, 9)), "9 numbers"),
        (replace(some(1), whole=None), "differs from the images before"),
        (replace(some(1), size=torch.tensor([[0.0, 5.0]])), "size is 0.0 x 5.0"),
        (replace(some(1), frame=torch.full((1, 2), 2**40)), "frame"),
    ],
)
def test_regions_that_cannot_be_kept_name_the_image(tmp_path: Path, regions: Regions, says: str) -> None:
    with Writer(tmp_path, MADE_BY) as writer:
        writer.add("first", some(0))
        with pytest.raises(DataError, match=f"image 'second'.*{says}"):
            writer.add("second", regions)


@pytest.mark.parametrize("id", ["", "x" * 4097, "\udcff"])
def test_an_id_must_be_text(tmp_path: Path, id: str) -> None:
    with Writer(tmp_path, MADE_BY) as writer, pytest.raises(DataError, match="image id"):
        writer.add(id, some(0))


def test_the_same_id_twice_is_refused(tmp_path: Path) -> None:
    with Writer(tmp_path, MADE_BY) as writer:
        writer.add("a", some(0))
        with pytest.raises(DataError, match="'a' is in the region store"):
            writer.add("a", some(1))


# ---------------------------------------------------------------- stopping and going on


def test_an_unfinished_store_cannot_be_read_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Writer(tmp_path, MADE_BY) as writer:
        writer.add("a", some(0))
        raise RuntimeError
    with pytest.raises(DataError, match="unfinished"):
        Store.open(tmp_path)
    with pytest.raises(DataError, match="no region store"):
        Store.open(tmp_path / "elsewhere")


def positions() -> list[int]:
    """Every kind of place in a data file of three images: inside head, header, id and body, and on their borders."""
    with pytest.MonkeyPatch.context():
        head = len(records.pack_data_head(MADE_BY, Layout(8, 2, 5, (3, 4))))
    ends = [head]
    for seed in range(3):
        ends.append(ends[-1] + len(records.pack_record(f"image {seed}", some(seed))))
    inside = [head // 2, 0, 1, 8, 15, 16, 17]
    for end in ends[:-1]:
        inside += [end + k for k in (-1, 0, 1, 4, 27, 28, 29, 34, 35, 36, 60)]
    return sorted({*inside, ends[-1] - 1, ends[-1]})


@pytest.mark.parametrize("length", positions())
def test_a_store_cut_anywhere_goes_on_to_the_same_bytes(tmp_path: Path, length: int) -> None:
    write(tmp_path / "whole", range(6))
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / DATA).write_bytes((tmp_path / "whole" / DATA).read_bytes()[:length])
    write(tmp_path / "cut", range(6))
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1), noise=st.binary(max_size=300))
def test_rubbish_after_a_cut_is_dropped(
    finished: Path, tmp_path_factory: pytest.TempPathFactory, cut: float, noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("cut")
    data = (finished / DATA).read_bytes()
    head = len(records.pack_data_head(MADE_BY, Layout(8, 2, 5, (3, 4))))
    (path / DATA).write_bytes(data[: head + int(cut * (len(data) - head))] + noise)
    write(path, range(12))
    assert content(path) == content(finished)


def test_zeros_that_a_power_cut_left_behind_are_dropped(finished: Path, tmp_path: Path) -> None:
    """The file was made longer before its last pages were written: sizes are right, contents are not."""
    data = bytearray((finished / DATA).read_bytes())
    data[-400:] = bytes(400)
    (tmp_path / DATA).write_bytes(data)
    write(tmp_path, range(12))
    assert content(tmp_path) == content(finished)


def test_a_finished_store_can_be_added_to_and_readers_keep_theirs(tmp_path: Path) -> None:
    write(tmp_path / "at once", range(8))
    write(tmp_path / "twice", range(5))
    before = Store.open(tmp_path / "twice")
    with Writer(tmp_path / "twice", MADE_BY) as writer:
        assert len(writer.done) == 5
        writer.add("image 5", some(5))
        during = Store.open(tmp_path / "twice")
        assert len(during) == 5 and torch.equal(during["image 4"].feats, some(4).feats)
        writer.add("image 6", some(6))
        writer.add("image 7", some(7))
    assert len(before) == 5 and torch.equal(before["image 0"].feats, some(0).feats)
    assert content(tmp_path / "twice") == content(tmp_path / "at once")


def test_regions_of_another_source_are_not_added(finished: Path) -> None:
    with pytest.raises(RegionMismatch, match="parameters boxes: 4 instead of 5"):
        Writer(finished, replace(MADE_BY, parameters={"boxes": 5, "scales": [1, 2]})).__enter__()


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    with Writer(tmp_path, MADE_BY), pytest.raises(GroundlingError, match="another process .* is writing"):
        Writer(tmp_path, MADE_BY).__enter__()
    write(tmp_path, range(2))  # the lock goes with the writer


def test_a_place_that_cannot_hold_a_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GroundlingError, match="cannot write a region store to .*file"):
        Writer(tmp_path / "file", MADE_BY).__enter__()
    (tmp_path / DATA).write_text("somebody else's precious bytes")
    with pytest.raises(DataError, match="not part of a region store"):
        Writer(tmp_path, MADE_BY).__enter__()
    assert (tmp_path / DATA).read_text() == "somebody else's precious bytes"


def write_large(path: Path) -> None:
    with Writer(path, MADE_BY) as writer:
        for seed in range(400):
            if f"image {seed}" not in writer.done:
                writer.add(f"image {seed}", some(seed, 200))


def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """The moments are sizes that the file has reached, so that they come in the middle on any machine."""
    write_large(tmp_path / "once")
    data, full = tmp_path / "killed" / DATA, (tmp_path / "once" / DATA).stat().st_size
    partial = 0
    for share in np.sort(np.random.default_rng(0).uniform(0.0, 0.8, 8)):
        process = multiprocessing.get_context("fork").Process(target=write_large, args=(tmp_path / "killed",))
        process.start()
        while process.is_alive() and not (data.exists() and data.stat().st_size > share * full):
            time.sleep(0.0005)
        process.kill()
        process.join()
        partial += 0 < data.stat().st_size < full
    assert partial > 2  # some kills did come in the middle
    write_large(tmp_path / "killed")
    assert content(tmp_path / "killed") == content(tmp_path / "once")


def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the kernel refuses the write half-way."""
    write(tmp_path, range(5))
    before = content(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = len(before[DATA]) + 2000
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        with (
            pytest.raises(GroundlingError, match="the 5 images before are kept; make room"),
            Writer(tmp_path, MADE_BY) as writer,
        ):
            writer.add("large", some(5, 500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert content(tmp_path) == before
    write(tmp_path, range(6))
    assert len(Store.open(tmp_path)) == 6


def test_a_disk_that_is_full_when_the_index_is_written_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, range(5))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(GroundlingError, match="cannot finish"), Writer(tmp_path, MADE_BY) as writer:
        writer.add("image 5", some(5))
        monkeypatch.setattr(os, "replace", full)
    monkeypatch.undo()
    assert len(Store.open(tmp_path)) == 5 and sorted(content(tmp_path)) == [LOCK, INDEX, DATA]
    write(tmp_path, range(6))
    write(tmp_path / "once", range(6))
    assert (tmp_path / INDEX).read_bytes() == (tmp_path / "once" / INDEX).read_bytes()


# ---------------------------------------------------------------- damage


def test_every_damaged_byte_of_an_image_names_it_and_no_other(finished: Path, tmp_path: Path) -> None:
    path = copy_of(finished, tmp_path / "s")
    data = (path / DATA).read_bytes()
    index = records.parse_index(memoryview((path / INDEX).read_bytes()), "index")
    start, end = int(index.offsets[3]), int(index.offsets[4])
    for at in [*range(start, start + 40), *range(start + 40, end, 7), end - 1]:
        with open(path / DATA, "r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 0x10]))
        store = Store.open(path)
        with pytest.raises(DataError, match="image 'image 3' of the region store .* is damaged"):
            store.batch(["image 2", "image 3"], limit=1)
        assert [id for id, problem in store.check() if problem] == ["image 3"]
        assert torch.equal(store["image 4"].feats, some(4).feats)
        (path / DATA).write_bytes(data)


def test_the_head_and_what_is_behind_the_last_image_are_checked(finished: Path, tmp_path: Path) -> None:
    path = copy_of(finished, tmp_path / "s")
    data = (path / DATA).read_bytes()
    index = records.parse_index(memoryview((path / INDEX).read_bytes()), "index")
    heads = [data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :] for at in range(0, int(index.offsets[0]), 3)]
    for hurt in (*heads, data + b"more"):
        (path / DATA).write_bytes(hurt)
        with pytest.raises(DataError):
            list(Store.open(path).check())


def test_a_file_cut_short_names_the_lost_images(finished: Path, tmp_path: Path) -> None:
    path = copy_of(finished, tmp_path / "s")
    os.truncate(path / DATA, (path / DATA).stat().st_size - 10)
    store = Store.open(path)
    assert torch.equal(store["image 10"].feats, some(10).feats)
    with pytest.raises(DataError, match="'image 11'"):
        store["image 11"]
    with pytest.raises(DataError, match="'image 11' .* is damaged"):  # a writer does not take damage for a stop
        write(path, range(13))


def test_a_file_cut_short_while_it_is_open_is_an_error_not_a_crash(finished: Path, tmp_path: Path) -> None:
    path = copy_of(finished, tmp_path / "s")
    store = Store.open(path)
    assert len(store["image 11"]) == 1
    os.truncate(path / DATA, 1000)
    with pytest.raises(DataError, match="'image 11'.*changed while it was open"):
        store["image 11"]


def test_a_missing_data_file_is_named(finished: Path, tmp_path: Path) -> None:
    path = copy_of(finished, tmp_path / "s")
    (path / DATA).unlink()
    with pytest.raises(DataError, match="cannot read .*regions.bin"):
        Store.open(path)


def test_a_damaged_index_does_not_deny_an_image(finished: Path, tmp_path: Path) -> None:
    """A flipped hash hides an id: the store must not say that the image was never there."""
    path = copy_of(finished, tmp_path / "s")
    index = bytearray((path / INDEX).read_bytes())
    tables = len(index) - len(records.parse_index(memoryview(bytes(index)), "index").tables)
    for at in range(tables + 12 * 8, tables + 12 * 16):
        index[at] ^= 0xFF
    (path / INDEX).write_bytes(index)
    with pytest.raises(DataError, match="index.bin is damaged"):
        "image 0" in Store.open(path)  # noqa: B015
    write(path, range(12))  # the cure that the message names
    assert content(path) == content(finished)


def only_data_errors(path: Path) -> None:
    try:
        store = Store.open(path)
        ids = list(store.ids)
        for id in [*ids[:20], "image 1"]:
            with suppress(DataError):
                store[id]
        list(store.check())
    except DataError:
        pass


FUZZ = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(at=st.floats(0, 1), new=st.binary(min_size=1, max_size=12))
def test_reading_a_changed_index_raises_data_errors_alone(
    finished: Path, tmp_path_factory: pytest.TempPathFactory, at: float, new: bytes
) -> None:
    path = copy_of(finished, tmp_path_factory.mktemp("fuzz") / "s")
    index = bytearray((path / INDEX).read_bytes())
    start = int(at * len(index))
    index[start : start + len(new)] = new
    (path / INDEX).write_bytes(index)
    only_data_errors(path)


@FUZZ
@given(
    head=st.dictionaries(
        st.sampled_from(["format", "fingerprint", "layout", "images", "regions", "bytes", "crc"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5) | st.just(1),
            lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["dim", "grid", "labels", "name"]), x),
            max_leaves=5,
        ),
    ),
    tables=st.binary(max_size=200),
)
def test_an_index_with_a_true_checksum_and_false_contents_raises_data_errors_alone(
    finished: Path, tmp_path_factory: pytest.TempPathFactory, head: dict[str, object], tables: bytes
) -> None:
    path = copy_of(finished, tmp_path_factory.mktemp("fuzz") / "s")
    true = records.parse_head((path / INDEX).read_bytes()[: _head_length(path)], "index")
    packed = records.pack_head(records.INDEX_MAGIC, {**true, **head})
    (path / INDEX).write_bytes(packed + tables)
    only_data_errors(path)


def _head_length(path: Path) -> int:
    start = (path / INDEX).read_bytes()[:16]
    length = records.head_length(start, records.INDEX_MAGIC, "index")
    assert length is not None
    return length


@FUZZ
@given(at=st.floats(0, 1), new=st.binary(min_size=1, max_size=40), keep_index=st.booleans())
def test_reading_and_resuming_a_changed_data_file_raises_data_errors_alone(
    finished: Path, tmp_path_factory: pytest.TempPathFactory, at: float, new: bytes, keep_index: bool
) -> None:
    path = copy_of(finished, tmp_path_factory.mktemp("fuzz") / "s")
    data = bytearray((path / DATA).read_bytes())
    start = int(at * len(data))
    data[start : start + len(new)] = new
    (path / DATA).write_bytes(data)
    only_data_errors(path)
    if not keep_index:
        (path / INDEX).unlink()
    try:
        write(path, range(12))
    except DataError:
        return
    if not keep_index:  # nothing recorded that the store was whole: what was damaged was made again
        assert content(path) == content(finished)


# ---------------------------------------------------------------- fingerprints


def test_equal_fingerprints_pass_even_after_json(finished: Path) -> None:
    require(Store.open(finished).fingerprint, replace(MADE_BY, parameters={"boxes": 4, "scales": (1, 2)}))


def test_a_mismatch_says_what_differs_and_how_to_make_the_right_ones() -> None:
    other = replace(MADE_BY, weights={"w.bin": "cd" * 32}, labels=("cat",))
    with pytest.raises(RegionMismatch) as error:
        require(other, MADE_BY)
    assert "weights w.bin: cdcd" in str(error.value) and "other labels (1 instead of 2)" in str(error.value)
    assert "regions extract DATA --source test --set boxes=4 --set 'scales=[1,2]'" in str(error.value)
    assert str(error.value).index("regions extract") < str(error.value).index("weights")  # the cure before the sums


def test_a_mismatch_with_imported_regions_says_to_import_them() -> None:
    with pytest.raises(RegionMismatch, match="regions import SOURCE --name butd"):
        require(MADE_BY, Fingerprint("butd", "imported", 2048))
