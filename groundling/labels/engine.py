"""Labelling shard by shard, on one machine. A finished shard is a file; its appearance, in one step, is the checkpoint.

Each shard is labelled by one process on one thread, so its bytes do not depend on the number of workers; a run that was
stopped leaves finished shards and nothing else, and the next run does the others. `job.json` says what the labels
depend on: a folder is not gone on with under other settings.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import TYPE_CHECKING, Any

from groundling.errors import DataError, GroundlingError
from groundling.labels import files
from groundling.labels.calibration import UNFITTED, Calibration
from groundling.labels.inputs import Shard
from groundling.labels.label import LabelledImage
from groundling.progress import ignore_interrupt, without_interrupt

if TYPE_CHECKING:
    from groundling.labels.labeller import Labeller

SHARDS, JOB = "shards", "job.json"
FORMAT = 1
BATCH = 32  # images that are tagged together: what is in memory of a shard


@dataclass(frozen=True)
class Job:
    """How to label: all that a worker needs, beside its shards."""

    out: str
    model: str = ""
    device: str = "cpu"
    regions: str = ""  # a region store; empty: regions are made from the images
    calibration: str = ""  # a file; empty: the one beside the model

    def labeller(self) -> Labeller:
        from groundling.labels.labeller import load

        return load(self.model, self.device, self.regions, self.calibration)


@dataclass(frozen=True)
class Done:
    """A finished shard: how many images it has, and how many of them could not be read."""

    name: str
    images: int
    problems: int


def output(out: str, name: str) -> str:
    """The file of a shard."""
    return files.join(out, SHARDS, f"{name}.jsonl")


def prepare(job: Job, shards: Sequence[Shard], about: dict[str, Any]) -> list[Shard]:
    """The shards that are still to be done; GroundlingError where the folder holds labels of other settings."""
    names = [shard.name for shard in shards]
    if len(set(names)) < len(names):
        raise DataError("two input files have the same name: give each its own, their outputs would be one")
    wanted = {"format": FORMAT, "settings": about, "shards": names}
    path = files.join(job.out, JOB)
    if files.exists(path):
        _require_same(path, wanted)
    else:
        files.write(path, json.dumps(wanted, indent=1).encode())
    files.remove_parts(files.join(job.out, SHARDS))
    return [shard for shard in shards if not files.exists(output(job.out, shard.name))]


def _require_same(path: str, wanted: dict[str, Any]) -> None:
    with files.opened(path) as file:
        found = files.parsed(file.read(), path)
    if found != wanted:
        keys = [key for key in wanted if not isinstance(found, dict) or found.get(key) != wanted[key]]
        raise GroundlingError(f"{path} is of other labels ({', '.join(keys)} differ); choose another --out")


def label_shard(labeller: Labeller, shard: Shard, out: str) -> Done:
    """Label one shard and write its file."""
    lines, problems = [], 0
    rest = iter(shard.read())
    while some := list(islice(rest, BATCH)):
        for image in labeller.images(some):
            lines.append(json.dumps(image.to_dict(), ensure_ascii=False, allow_nan=False))
            problems += bool(image.problem)
    files.write(output(out, shard.name), "".join(line + "\n" for line in lines).encode())
    return Done(shard.name, len(lines), problems)


def run(job: Job, shards: Sequence[Shard], workers: int = 1) -> Iterator[Done]:
    """Label these shards; one Done each, as they are finished."""
    if workers <= 1 or len(shards) <= 1:
        with _one_thread():
            labeller = job.labeller()
            for shard in shards:
                yield label_shard(labeller, shard, job.out)
        return
    yield from _together(job, shards, min(workers, len(shards)))


class Labelled:
    """The labels of an output folder, in the order of the input; read anew each time, line by line."""

    def __init__(
        self, out: str, names: Sequence[str] = (), change: Callable[[LabelledImage], LabelledImage] | None = None
    ) -> None:
        self.out, self.names, self.change = out, names or shard_names(out), change

    def __iter__(self) -> Iterator[LabelledImage]:
        for name in self.names:
            path = output(self.out, name)
            with files.opened(path) as file:
                for number, line in enumerate(file, start=1):
                    image = _parsed(line, f"{path}, line {number}")
                    yield self.change(image) if self.change else image


def _parsed(line: bytes, where: str) -> LabelledImage:
    try:
        return LabelledImage.from_dict(json.loads(line))
    except (ValueError, RecursionError, DataError) as error:
        raise DataError(f"{where}: {error}; delete the file and run the same command again") from error


def shard_names(out: str) -> list[str]:
    """The shards of an output folder, in order; DataError where it is none, or not finished."""
    names = [str(name) for name in _settled(out)["shards"]]
    missing = [name for name in names if not files.exists(output(out, name))]
    if missing:
        raise DataError(f"{out}: {len(missing)} of {len(names)} shards are missing; run the same command again")
    return names


def digest(out: str) -> str:
    """Which grounder made the labels of an output folder."""
    return str(_settled(out)["settings"].get("grounder", ""))


def threshold(out: str) -> float:
    """The confidence from which the labels of an output folder are exported, unless told."""
    calibration = _settled(out)["settings"].get("calibration")
    return Calibration.from_json(calibration).threshold if calibration else UNFITTED


def _settled(out: str) -> dict[str, Any]:
    """What `job.json` of an output folder has; DataError where there is none, or it is damaged."""
    path = files.join(out, JOB)
    if not files.exists(path):
        raise DataError(f"{out}: no labels here ({JOB} is missing); make them with `groundling label DATA --out {out}`")
    with files.opened(path) as file:
        job = files.parsed(file.read(), path)
    if not (isinstance(job, dict) and isinstance(job.get("shards"), list) and isinstance(job.get("settings"), dict)):
        raise DataError(f"{path} is damaged (expected shards and settings); label into another folder")
    return job


# ---------------------------------------------------------------- several processes

_labeller: Labeller | None = None  # in a worker: loaded once


def _together(job: Job, shards: Sequence[Shard], workers: int) -> Iterator[Done]:
    """As they are finished; no more than two shards a worker are under way."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _start, (job,))
    rest, running = iter(shards), set[Future[Done]]()
    try:
        while True:
            with without_interrupt():
                running |= {pool.submit(_work, shard, job.out) for shard in islice(rest, 2 * workers - len(running))}
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
    except BrokenProcessPool as error:
        raise GroundlingError(
            "a worker process died (out of memory?); finished shards are kept: run the same command again, "
            "with fewer --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _start(job: Job) -> None:
    """Set up a worker, which does not outlive its parent."""
    global _labeller
    ignore_interrupt()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    one_thread()
    _labeller = job.labeller()


def one_thread() -> None:
    """Sums depend on how they are shared out among threads: one thread, one result."""
    os.environ["OPENCV_FOR_THREADS_NUM"] = "1"
    import torch

    torch.set_num_threads(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _work(shard: Shard, out: str) -> Done:
    assert _labeller is not None
    return label_shard(_labeller, shard, out)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)
