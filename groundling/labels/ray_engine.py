"""Labelling on a Ray cluster: the same shards, the same files, the same bytes as on one machine.

Ray Data hands shards to actors that load the model once. An actor takes half a CPU, so that reading is never starved,
and computes on one thread. A dead actor is started again and its shard given to another; whoever finishes first writes
the file, in one step, and both would write the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from groundling.errors import GroundlingError, MissingExtra
from groundling.labels.engine import Done, Job, label_shard, one_thread
from groundling.labels.inputs import Shard

CPUS = 0.5  # of an actor
PATIENCE = {"RAY_agent_register_timeout_ms": "300000", "RAY_worker_register_timeout_seconds": "300"}  # on busy machines


class Worker:
    """An actor: a labeller, loaded once."""

    def __init__(self, job: Job) -> None:
        one_thread()
        self.job, self.labeller = job, job.labeller()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        done = [label_shard(self.labeller, Shard.from_json(row), self.job.out) for row in batch["shard"]]
        return {
            "name": [one.name for one in done],
            "images": [one.images for one in done],
            "problems": [one.problems for one in done],
        }


def run(job: Job, shards: Sequence[Shard], workers: int = 2, address: str = "") -> Iterator[Done]:
    """Label these shards with so many actors, on the cluster at `address` or on one that is started here."""
    if not shards:
        return
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _connect(ray, address, workers)
    try:
        yield from _labelled(ray, job, shards, min(workers, len(shards)))
    except ray.exceptions.RayError as error:
        first = str(error).strip().splitlines()[0]
        raise GroundlingError(
            f"Ray could not finish ({first}); finished shards are kept: run the same command again"
        ) from error
    finally:
        if started:
            ray.shutdown()


def _labelled(ray: Any, job: Job, shards: Sequence[Shard], workers: int) -> Iterator[Done]:
    rows = ray.data.from_items([{"shard": shard.to_json()} for shard in shards], override_num_blocks=len(shards))
    done = rows.map_batches(
        Worker,
        fn_constructor_args=(job,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=CPUS,
        max_restarts=-1,
        max_task_retries=-1,
    )
    for row in done.iter_rows():
        yield Done(str(row["name"]), int(row["images"]), int(row["problems"]))


def _connect(ray: Any, address: str, workers: int) -> None:
    if not address:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
    alone: dict[str, Any] = {"num_cpus": max(2, workers), "include_dashboard": False}
    about = {"address": address} if address else alone
    try:
        ray.init(**about, log_to_driver=False, logging_level=logging.WARNING)
    except Exception as error:  # where its processes start too slowly, Ray raises no class of its own
        ray.shutdown()
        place = f"at {address}" if address else "of this machine (it gives itself 30 seconds to start)"
        raise GroundlingError(f"no Ray cluster {place}: {error}; --engine local does the same work") from error


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtra("--engine ray needs Ray: pip install 'groundling[ray]'") from error
    return ray
