"""Ray: a real local cluster of two workers, which are killed on the way.

The five commands share `groundling.parallel`, so that what holds of one worker's death holds of theirs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import light_worker
import pytest
from labelled_scenes import scenes as scenes  # a fixture

from groundling.cli import main
from groundling.errors import DataError, GroundlingError
from groundling.inference import evidence
from groundling.inference.calibration import keep_calibration
from groundling.labels import engine, files
from groundling.labels.inputs import shards
from groundling.parallel import RAY, Engine

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
TWO = Engine(2, RAY)
KILLS = int(os.environ.get("GROUNDLING_RAY_KILLS", "20"))
LABEL_KILLS = int(os.environ.get("GROUNDLING_RAY_LABEL_KILLS", "2"))


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One cluster for all tests of this file: it takes longer to start than to work."""
    ray = pytest.importorskip("ray")
    before, here = os.environ.get("PYTHONPATH"), Path(__file__).parent  # actors import this file, and groundling
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*map(str, (here, here.parent, here.parents[1])), before]))
    from groundling.parallel import actors

    with actors._cluster(actors._ray(), "", 2):
        yield
    assert not ray.is_initialized()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


def processes_of_actors() -> list[int]:
    """Processes of Ray actors that descend from this one."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"MapWorker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return sorted(pid for pid in found if os.getpid() in ancestors(pid, parents))


def ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    seen: set[int] = set()
    while (pid := parents.get(pid, 0)) > 1 and pid not in seen:
        seen.add(pid)
    return seen


def starts(folder: Path, base: int) -> Callable[[int], dict[str, Any]]:
    import torch

    made = {"threads": torch.get_num_threads(), "omp": os.environ.get("OMP_NUM_THREADS", ""), "started": time.time()}
    (folder / str(os.getpid())).touch()

    def work(item: int) -> dict[str, Any]:
        if item == 13:
            raise DataError("thirteen cannot be read")
        end = time.monotonic() + 60
        while len([*folder.iterdir()]) < 2 and time.monotonic() < end:  # until the other actor has loaded too
            time.sleep(0.05)
        time.sleep(0.05)
        return made | {"value": base + item, "process": os.getpid()}

    return work


def test_two_actors_answer_in_order_on_one_thread_each_started_once(tmp_path: Path) -> None:
    found = list(TWO.map(partial(starts, tmp_path, 100), range(12)))
    assert [one["value"] for one in found] == [100 + i for i in range(12)]
    assert {(one["threads"], one["omp"]) for one in found} == {(1, "1")}
    workers = {(one["process"], one["started"]) for one in found}
    processes = {pid for pid, _ in workers}
    assert len(workers) == len(processes) == 2 and os.getpid() not in processes


def test_what_an_actor_could_not_read_is_told_here(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="thirteen cannot be read"):
        list(TWO.map(partial(starts, tmp_path, 0), [1, 13, 2]))


def labels(out: str) -> dict[str, bytes]:
    found = {}
    for name in engine.shard_names(out):
        with files.opened(engine.output(out, name)) as file:
            found[name] = file.read()
    return found


@pytest.fixture(scope="module")
def plain(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The labels of one process."""
    job = labelling(scenes, tmp_path_factory.mktemp("plain"))
    some = shards(str(scenes / "scenes"), images=2)
    list(engine.run(job, engine.prepare(job, some, {})))
    return labels(job.out)


def labelling(scenes: Path, out: object) -> engine.Job:
    return engine.Job(str(out), str(scenes / "model"), regions=str(scenes / "regions"))


@pytest.mark.parametrize("scheme", ["{}", "file://{}"])
def test_labels_are_the_same_bytes_and_finished_shards_are_not_done_again(
    scheme: str, scenes: Path, plain: dict[str, bytes], tmp_path: Path
) -> None:
    some = shards(str(scenes / "scenes"), images=2)
    job = labelling(scenes, scheme.format(tmp_path / "out"))
    assert [one.name for one in engine.run(job, engine.prepare(job, some, {}), TWO)] == [one.name for one in some]
    assert labels(job.out) == plain
    for lost in some[1:3]:
        Path(tmp_path / "out" / engine.SHARDS / f"{lost.name}.jsonl").unlink()
    again = list(engine.run(job, engine.prepare(job, some, {}), TWO))
    assert [one.name for one in again] == [one.name for one in some[1:3]]
    assert labels(job.out) == plain


def test_the_memory_of_one_process_is_refused(scenes: Path) -> None:
    with pytest.raises(GroundlingError, match="memory:// is the memory of one process"):
        engine.run(labelling(scenes, "memory://out"), [], TWO)


def calibrated(model: Path, out: Path) -> Path:
    """The grounder with a calibration of its evidence, which thirty scenes are too few to fit."""
    shutil.copytree(model, out)
    about = {"format": evidence.FORMAT, "calibration": {"x": [0, 1], "p": [0, 1]}}
    keep_calibration(out / evidence.CALIBRATION, json.dumps(about).encode())
    return out


@pytest.mark.parametrize("command", ["caption", "ground", "audit", "regions"])
def test_a_command_writes_the_same_with_ray(
    command: str, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = ["--hidden", 8, "--embed", 8, "--attention", 8, "--epochs", 1, "--batch", 8, "--min-count", 1]
    data, model = scenes / "scenes", ["--model", calibrated(scenes / "model", tmp_path / "model")]
    if command == "caption":
        train = ["--data", data, "--regions", scenes / "regions", "--out", tmp_path / "captioner", *tiny]
        assert main([str(word) for word in ["train", "updown", *train]]) == 0
    made = []
    for name in ("local", "ray"):
        out = tmp_path / name
        words = {
            "caption": ["caption", data, "--model", tmp_path / "captioner", "--out", out],
            "ground": ["ground", "--data", data, "--regions", scenes / "regions", *model, "--split", "train", "--json"],
            "audit": ["audit", "--data", data, *model, "-o", out, "--json"],
            "regions": ["regions", "extract", data, "--source", "scenes", "--out", out],
        }[command]
        capsys.readouterr()
        assert main([str(word) for word in [*words, "--engine", name, "--workers", 2]]) == 0
        written = [out] if out.is_file() else [file for file in sorted(out.glob("*")) if file.name != ".lock"]
        made.append([capsys.readouterr().out.replace(str(out), ""), *(file.read_bytes() for file in written)])
    assert made[0] == made[1]
    assert len(made[0]) > 1 or command == "ground"


def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """While actors load and work, one of them is killed again and again; every item comes once, whole and in order."""
    killed, runs = list[int](), 0
    start = partial(light_worker.starts, str(tmp_path))
    with kills(lambda: list(TWO.map(start, [0])), killed):
        while len(killed) < KILLS:
            assert list(TWO.map(start, range(100))) == [*range(100)]
            found = {int(file.stem): file.read_bytes() for file in tmp_path.glob("*.txt")}
            assert found == {item: light_worker.content(item) for item in range(100)}
            for item in found:
                (tmp_path / f"{item}.txt").unlink()
            runs += 1
            print(f"{len(killed)} kills of actors in {runs} runs", file=sys.stderr, flush=True)


def test_kills_at_random_moments_lose_no_label(scenes: Path, plain: dict[str, bytes], tmp_path: Path) -> None:
    """The same with actors that load a model and label; every shard has the bytes of one process."""
    some = shards(str(scenes / "scenes"), images=2)
    killed, runs = list[int](), 0

    def one_shard() -> None:
        job = labelling(scenes, Path(tempfile.mkdtemp(dir=tmp_path)))
        list(engine.run(job, engine.prepare(job, some[:1], {}), TWO))

    with kills(one_shard, killed):
        while len(killed) < LABEL_KILLS:
            job = labelling(scenes, tmp_path / str(runs))
            done = list(engine.run(job, engine.prepare(job, some, {}), TWO))
            assert [one.name for one in done] == [shard.name for shard in some]
            assert labels(job.out) == plain
            runs += 1
            print(f"{len(killed)} kills of labelling actors in {runs} runs", file=sys.stderr, flush=True)


@contextmanager
def kills(undisturbed: Callable[[], object], killed: list[int]) -> Iterator[None]:
    """Actors are killed by and by, one at a time; `killed` has their processes.

    An actor that is always killed while it loads would never work. So the moments are spread over the time that a short
    work takes on this machine, which is mostly loading: one actor of three outlives it (each dies once in this time on
    average, e⁻¹).
    """
    draw, over = random.Random(0), threading.Event()
    undisturbed()  # Ray itself starts here
    begun = time.monotonic()
    undisturbed()
    loading = time.monotonic() - begun

    def kill() -> None:
        while not over.wait(draw.uniform(0, loading)):
            if pids := processes_of_actors():
                pid = draw.choice(pids)
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
