"""Ray: a real local cluster of two workers, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from labelled_scenes import scenes as scenes  # a fixture

from groundling.labels import engine, ray_engine
from groundling.labels.inputs import shards


def actors() -> list[int]:
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_writes_the_same_bytes_though_a_worker_is_killed(
    scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(engine.__file__).parents[2]))
    some = shards(str(scenes / "scenes"), images=2)
    plain, spread = (
        engine.Job(str(tmp_path / name), str(scenes / "model"), regions=str(scenes / "regions"))
        for name in ("plain", "ray")
    )
    list(engine.run(plain, engine.prepare(plain, some, {})))
    killed: list[int] = []

    def kill() -> None:
        """Kill one actor, once the first shard is there."""
        folder = tmp_path / "ray" / engine.SHARDS
        while not list(folder.glob("*.jsonl")):
            time.sleep(0.02)
        for pid in actors()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    done = list(ray_engine.run(spread, engine.prepare(spread, some, {}), workers=2))
    thread.join(30)
    ray.shutdown()
    assert killed, "no actor was killed: the test proves nothing"
    assert sorted(one.name for one in done) == [shard.name for shard in some]
    for name in engine.shard_names(str(tmp_path / "ray")):
        there, here = engine.output(spread.out, name), engine.output(plain.out, name)
        assert Path(there).read_bytes() == Path(here).read_bytes()
