"""Workers that are actors of Ray: on this machine, or on all machines of a cluster.

Ray Data hands the items out. An actor takes half a CPU, so that Ray's own tasks are never starved, and computes on one
thread. Ray starts a dead actor again, as often as it dies, and gives out anew what it had not finished.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from groundling.errors import GroundlingError, MissingExtra
from groundling.parallel import Item, Result, Start, started_on_one_thread

CPUS = 0.5  # of an actor
BLOCKS = 4096  # parts that the items are handed out in, at most
LOCAL_CLUSTER = {  # environment of a cluster that is started here
    "RAY_agent_register_timeout_ms": "300000",  # busy machines need more than its 30 seconds
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_worker_niceness": "0",  # Ray's 15 leaves actors hardly any time where other processes are busy
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
}


class Worker:
    """An actor. Items and results are pickled here: Ray Data would make tables of them."""

    def __init__(self, start: Start[Any, Any]) -> None:
        self.work = started_on_one_thread(start)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"result": [pickle.dumps(self._result(pickle.loads(item))) for item in batch["item"]]}

    def _result(self, item: Any) -> Any:
        try:
            return self.work(item)
        except GroundlingError as error:  # raised again where a person reads it; Ray would try again and again
            return error


def map(start: Start[Item, Result], items: Sequence[Item], workers: int, address: str = "") -> Iterator[Result]:
    """With so many actors, on the cluster at `address` or on one that is started here and ends with the work."""
    if not items:
        return
    ray = _ray()
    with _cluster(ray, address, workers):
        try:
            for row in _rows(ray, start, items, min(workers, len(items))):
                result = pickle.loads(row["result"])
                if isinstance(result, GroundlingError):
                    raise result
                yield result
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise GroundlingError(f"Ray could not finish ({first}); run the same command again") from error


def _rows(ray: Any, start: Start[Any, Any], items: Sequence[Any], workers: int) -> Iterator[dict[str, Any]]:
    settings = ray.data.DataContext.get_current().copy()
    settings.enable_progress_bars = False
    settings.execution_options.preserve_order = True
    with ray.data.DataContext.current(settings):
        rows = [{"item": pickle.dumps(item)} for item in items]
        done = ray.data.from_items(rows, override_num_blocks=min(len(rows), BLOCKS)).map_batches(
            Worker,
            fn_constructor_args=(start,),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=CPUS,
        )
        yield from done.iter_rows()


@contextmanager
def _cluster(ray: Any, address: str, workers: int) -> Iterator[None]:
    """A connection that is there already is used, and left."""
    if ray.is_initialized():
        yield
        return
    if not address:
        for name, value in LOCAL_CLUSTER.items():
            os.environ.setdefault(name, value)
    alone: dict[str, Any] = {"num_cpus": max(2, workers), "include_dashboard": False}
    about = {"address": address} if address else alone
    try:
        ray.init(**about, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # where its processes start too slowly, Ray raises no class of its own
        ray.shutdown()
        place = f"at {address}" if address else "of this machine (it gives itself 30 seconds to start)"
        raise GroundlingError(f"no Ray cluster {place}: {error}; --engine local does the same work") from error
    try:
        yield
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtra("--engine ray needs Ray: pip install 'groundling[ray]'") from error
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    return ray
