"""Several processes as one: `torchrun` starts them, each takes its part of every batch, all hold the same weights."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the processes that `torchrun` started, if it did; yields the device of this one."""
    if "WORLD_SIZE" not in os.environ:
        yield device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


@contextmanager
def one_by_one() -> Iterator[None]:
    """The first process goes through alone, then the others: what it caches on disk, they read."""
    if world() > 1 and rank() != 0:
        dist.barrier()
    yield
    if world() > 1 and rank() == 0:
        dist.barrier()


def wait() -> None:
    """Until all processes are here."""
    if world() > 1:
        dist.barrier()


def distribute(step: nn.Module) -> nn.Module:
    """`step`, with gradients averaged over processes. A part may leave some of its weights unused in a stage."""
    if world() == 1:
        return step
    warnings.filterwarnings("ignore", "find_unused_parameters=True was specified", UserWarning)
    return nn.parallel.DistributedDataParallel(step, find_unused_parameters=True)


def mean(values: Tensor) -> Tensor:
    """The mean over processes, the same on all of them; NaN where it is on any."""
    if world() == 1:
        return values
    values = values.clone()
    dist.all_reduce(values)
    return values / world()


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether it is set in any process; the same answer in all of them."""
    return bool(mean(torch.tensor(float(flag), device=device)) > 0)


def from_first(value: float) -> float:
    """What the first process has."""
    if world() == 1:
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.broadcast(shared, 0)
    return float(shared)


def gather(rows: Tensor) -> Tensor:
    """Rows of all processes, in order of rank, for negatives from the global batch; ranks may have different numbers.

    Differentiable: the gradient of a row is the sum of what all processes ask of it, so that a loss reduced with
    `mean_over` has the gradient that one process would find with the whole batch.
    """
    if world() == 1:
        return rows
    gathered: Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(world())]
        dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
        sizes = [int(count) for count in counts]
        ctx.sizes = sizes
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        gathered = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(gathered, padded)
        return torch.cat([part[:n] for part, n in zip(gathered, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        start = sum(ctx.sizes[: rank()])
        return total[start : start + ctx.sizes[rank()]]
