"""Labelling shard by shard. A finished shard is a file; its appearance, in one step, is the checkpoint.

Each shard is labelled by one process on one thread, so its bytes do not depend on the number of workers; a run that was
stopped leaves finished shards and nothing else, and the next run does the others. `job.json` says what the labels
depend on: a folder is not gone on with under other settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from groundling.errors import DataError, GroundlingError
from groundling.labels import files
from groundling.labels.calibration import UNFITTED, Calibration
from groundling.labels.inputs import Shard
from groundling.labels.label import LabelledImage
from groundling.parallel import ALONE, RAY, Counter, Engine

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
    joints: bool = True  # whether those of persons help to find what they wear

    def labeller(self) -> Labeller:
        from groundling.labels.labeller import load

        return load(self.model, self.device, self.regions, self.calibration, self.joints)


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
    """The shards that are still to be done; GroundlingError where the folder holds labels of other data or settings."""
    names = [shard.name for shard in shards]
    if len(set(names)) < len(names):
        raise DataError("two input files have the same name: give each its own, their outputs would be one")
    wanted = {"format": FORMAT, "settings": about, "shards": names, "captions": _hash(shards)}
    path = files.join(job.out, JOB)
    if files.exists(path):
        _require_same(path, wanted)
    files.write(path, json.dumps(wanted, indent=1).encode())  # also where an earlier version left the captions out
    files.remove_parts(files.join(job.out, SHARDS))
    return [shard for shard in shards if not files.exists(output(job.out, shard.name))]


def _hash(shards: Sequence[Shard]) -> str:
    """Which images of a data set have which captions; tars and Parquet files are known by their names alone."""
    digest = sha256()
    for shard in shards:
        told = [[pair.id, pair.captions, pair.split] for pair in shard.pairs]
        digest.update(json.dumps([shard.name, told]).encode())
    return digest.hexdigest()[:16]


def _require_same(path: str, wanted: dict[str, Any]) -> None:
    with files.opened(path) as file:
        found = files.parsed(file.read(), path)
    if isinstance(found, dict):
        found.setdefault("captions", wanted["captions"])  # an earlier version did not keep them
    if found != wanted:
        keys = [key for key in wanted if not isinstance(found, dict) or found.get(key) != wanted[key]]
        raise GroundlingError(f"{path} is of other labels ({', '.join(keys)} differ); choose another --out")


def label_shard(labeller: Labeller, shard: Shard, out: str, count: Counter | None = None) -> Done:
    """Label one shard and write its file. `count`: of the images that are labelled."""
    count = count or Counter()
    lines, problems = [], 0
    rest = iter(shard.read())
    while some := list(islice(rest, BATCH)):
        for image in labeller.images(some):
            lines.append(json.dumps(image.to_dict(), ensure_ascii=False, allow_nan=False))
            problems += bool(image.problem)
            count.add()
    files.write(output(out, shard.name), "".join(line + "\n" for line in lines).encode())
    return Done(shard.name, len(lines), problems)


def run(job: Job, shards: Sequence[Shard], engine: Engine = ALONE, count: Counter | None = None) -> Iterator[Done]:
    """Label these shards; one Done each, in their order. `count`: see `label_shard`; actors of Ray do not count."""
    if engine.name == RAY and job.out.startswith("memory://"):
        raise GroundlingError("memory:// is the memory of one process, and Ray works in several: choose another --out")
    each = replace(engine, workers=min(engine.workers, len(shards)))
    return each.map(partial(_labels_shards, job, count), shards, lambda shard: f"shard {shard.name}")


def _labels_shards(job: Job, count: Counter | None) -> Callable[[Shard], Done]:
    """In a worker: what labels shards, with a model that is loaded once."""
    return partial(label_shard, job.labeller(), out=job.out, count=count)


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
    """The confidence from which the labels of an output folder are exported by default."""
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
