"""Shards: the same bytes whoever labels them, and nothing lost when the work is stopped."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from labelled_scenes import scenes as scenes  # a fixture

from groundling.data.dataset import load
from groundling.errors import DataError, GroundlingError
from groundling.labels import engine, files
from groundling.labels.inputs import Pair, Shard, shards
from groundling.labels.label import LabelledImage
from groundling.parallel import Counter, Engine


def job(scenes: Path, out: object) -> engine.Job:
    return engine.Job(str(out), str(scenes / "model"), regions=str(scenes / "regions"))


def done(scenes: Path, out: object, some: list[Shard], workers: int = 1) -> dict[str, bytes]:
    """Label, and the bytes of every shard."""
    work = job(scenes, out)
    list(engine.run(work, engine.prepare(work, some, {}), Engine(workers)))
    names = engine.shard_names(str(out))
    found = {}
    for name in names:
        with files.opened(engine.output(str(out), name)) as file:
            found[name] = file.read()
    return found


@pytest.fixture(scope="session")
def tar(scenes: Path) -> Path:
    """The training scenes as a WebDataset."""
    path = scenes / "tars" / "scenes.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for example in load(scenes / "scenes", "train", annotated=False):
            texts = "\n".join(caption.text for caption in example.captions)
            for name, content in (
                (f"{example.id}.png", Path(example.media).read_bytes()),
                (f"{example.id}.txt", texts),
            ):
                about = tarfile.TarInfo(name)
                raw = content if isinstance(content, bytes) else content.encode()
                about.size = len(raw)
                archive.addfile(about, io.BytesIO(raw))
    return path


@pytest.fixture(scope="session")
def table(scenes: Path) -> Path:
    """The same as Parquet, two row groups."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = scenes / "parquet" / "scenes.parquet"
    path.parent.mkdir()
    rows = [
        {"id": e.id, "image": {"bytes": Path(e.media).read_bytes()}, "captions": [c.text for c in e.captions]}
        for e in load(scenes / "scenes", "train", annotated=False)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=(len(rows) + 1) // 2)
    return path


def test_a_data_set_tars_and_parquet_hold_the_same_pairs(scenes: Path, tar: Path, table: Path) -> None:
    def pairs(path: Path, split: str | None = None) -> list[tuple[str, tuple[str, ...], tuple[int, int]]]:
        found = [pair for shard in shards(str(path), split, images=7) for pair in shard.read()]
        return [(pair.id, pair.captions, pair.opened().size) for pair in found]

    expected = pairs(scenes / "scenes", "train")
    assert len(expected) > 10
    assert pairs(tar) == pairs(tar.parent) == expected
    assert pairs(table) == expected
    assert len(shards(str(table))) == 2


def test_the_bytes_do_not_depend_on_the_number_of_workers(scenes: Path, tmp_path: Path) -> None:
    some = shards(str(scenes / "scenes"), images=8)
    alone = done(scenes, tmp_path / "1", some)
    assert len(alone) == len(some) > 2
    assert done(scenes, tmp_path / "2", some, workers=2) == alone


class Slow:
    """A labeller that notes how many images were counted before each of its own."""

    def __init__(self, count: Counter) -> None:
        self.count, self.seen = count, list[int]()

    def images(self, pairs: list[Pair]) -> Iterator[LabelledImage]:
        for pair in pairs:
            self.seen.append(self.count.value)
            yield LabelledImage(pair.id, pair.media, (1, 1), pair.captions, ())


def test_images_are_counted_one_by_one_not_shard_by_shard(tmp_path: Path) -> None:
    count = Counter()
    slow = Slow(count)
    engine.label_shard(slow, Shard("s", pairs=(Pair("a", "a.png", ("a dog",)),) * 3), str(tmp_path), count)  # type: ignore[arg-type]
    assert slow.seen == [0, 1, 2] and count.value == 3


def test_processes_count_their_images_together(scenes: Path, tmp_path: Path) -> None:
    some, count = shards(str(scenes / "scenes"), images=8), Counter(2)
    work = job(scenes, tmp_path)
    list(engine.run(work, engine.prepare(work, some, {}), Engine(2), count))
    assert count.value == sum(len(shard.pairs) for shard in some)


def test_a_shard_knows_how_many_images_it_has_but_for_a_tar(scenes: Path, tar: Path, table: Path) -> None:
    images = len(load(scenes / "scenes", "train", annotated=False))
    assert sum(shard.images or 0 for shard in shards(str(table))) == images
    assert [shard.images for shard in shards(str(scenes / "scenes"), "train")] == [images]
    assert [shard.images for shard in shards(str(tar))] == [None]


def test_a_finished_shard_is_not_done_again_and_a_missing_one_is(scenes: Path, tmp_path: Path) -> None:
    some = shards(str(scenes / "scenes"), images=8)
    before = done(scenes, tmp_path, some)
    lost = Path(engine.output(str(tmp_path), some[1].name))
    lost.unlink()
    with pytest.raises(DataError, match="1 of .* shards are missing; run the same command again"):
        engine.shard_names(str(tmp_path))
    assert [shard.name for shard in engine.prepare(job(scenes, tmp_path), some, {})] == [some[1].name]
    assert done(scenes, tmp_path, some) == before


def test_other_settings_need_another_folder(scenes: Path, tmp_path: Path) -> None:
    some = shards(str(scenes / "scenes"))
    engine.prepare(job(scenes, tmp_path), some, {"grounder": "a"})
    with pytest.raises(GroundlingError, match="settings differ.*another --out"):
        engine.prepare(job(scenes, tmp_path), some, {"grounder": "b"})


def test_other_images_or_captions_need_another_folder(scenes: Path, tmp_path: Path) -> None:
    """A photo more in the one shard of a small data set would never be labelled, and another caption not be heard."""
    [shard] = shards(str(scenes / "scenes"))
    engine.prepare(job(scenes, tmp_path), [shard], {})
    fewer, first = replace(shard, pairs=shard.pairs[1:]), replace(shard.pairs[0], captions=("a cat",))
    for other in (fewer, replace(shard, pairs=(first, *shard.pairs[1:]))):
        with pytest.raises(GroundlingError, match="captions differ.*another --out"):
            engine.prepare(job(scenes, tmp_path), [other], {})
    kept = json.loads((tmp_path / engine.JOB).read_text())
    del kept["captions"]
    (tmp_path / engine.JOB).write_text(json.dumps(kept))
    assert engine.prepare(job(scenes, tmp_path), [shard], {}) == [shard]  # labels of an earlier version go on
    with pytest.raises(GroundlingError, match="captions differ"):  # and are known from then on
        engine.prepare(job(scenes, tmp_path), [fewer], {})


def test_an_image_that_cannot_be_read_is_kept_with_its_problem(scenes: Path, tmp_path: Path) -> None:
    bad = Pair("bad", "nowhere.tar::bad.png", ("a dog",), content=b"no image")
    labeller = engine.Job("", str(scenes / "model")).labeller()
    found = list(labeller.images([bad]))
    assert len(found) == 1 and found[0].labels == ()
    assert "nowhere.tar::bad.png: not an image" in found[0].problem
    assert engine.label_shard(labeller, Shard("s", pairs=(bad,)), str(tmp_path)).problems == 1


@pytest.mark.parametrize("scheme", ["memory://labels", "file://{}"])
def test_labels_go_to_an_address(scheme: str, scenes: Path, tmp_path: Path) -> None:
    out = scheme.format(tmp_path / "out")
    some = shards(str(scenes / "scenes"), "val", images=2)
    assert done(scenes, out, some) == done(scenes, tmp_path / "here", some)
    assert len(list(engine.Labelled(out))) == sum(len(shard.pairs) for shard in some)


def test_tars_are_read_from_an_address(tar: Path) -> None:
    files.write("memory://tars/scenes.tar", tar.read_bytes())
    here, there = shards(str(tar))[0], shards("memory://tars")[0]
    assert [pair.content for pair in there.read()] == [pair.content for pair in here.read()]


def test_a_shard_survives_being_sent_elsewhere(scenes: Path) -> None:
    for shard in shards(str(scenes / "scenes"), images=8):
        assert Shard.from_json(shard.to_json()) == shard


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking: the child does nothing but label
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_at_random_moments_lose_nothing(kills: int, scenes: Path, tmp_path: Path) -> None:
    """What a killed process leaves is whole shards; the next one goes on, and the end is as if nothing had happened."""
    some = shards(str(scenes / "scenes"), images=2)
    expected = done(scenes, tmp_path / "undisturbed", some)
    labeller = job(scenes, "").labeller()
    start = time.perf_counter()
    for shard in some:
        engine.label_shard(labeller, shard, str(tmp_path / "timed"))
    each = (time.perf_counter() - start) / len(some)  # seconds that a shard takes
    draw, runs, killed = random.Random(0), 0, 0
    while killed < kills:
        work = job(scenes, tmp_path / str(runs))
        rest = engine.prepare(work, some, {})
        if not rest:
            runs += 1
            continue
        child = os.fork()
        if child == 0:
            try:
                for shard in rest:
                    engine.label_shard(labeller, shard, work.out)
            finally:
                os._exit(0)
        time.sleep(draw.uniform(0, 3 * each))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        for path in (Path(work.out) / engine.SHARDS).glob("*.jsonl"):
            assert path.read_bytes() == expected[path.stem]
    assert done(scenes, tmp_path / str(runs), some) == expected
    for run in range(runs):  # those that were ended in pieces: each image once
        ids = [image.id for image in engine.Labelled(str(tmp_path / str(run)))]
        assert len(ids) == len(set(ids)) == sum(len(shard.pairs) for shard in some)
    print(f"{killed} kills, {runs} runs ended in pieces")
