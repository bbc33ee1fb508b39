"""The mean that every objective takes: over the global batch, whatever the number of processes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def mean_over(values: Tensor, where: Tensor) -> Tensor:
    """Mean of `values` over the True positions of `where` (same shape) in the batches of all W processes; 0 if none.

    MultiBranch training averages gradients over processes, so each returns  W Σ_own values / count_of_all : the
    average of these is  Σ_all values / count_of_all,  the mean that one process would find with the whole batch.
    """
    total = torch.where(where, values, 0.0).sum()
    count = where.sum()
    if not dist.is_initialized():
        return total / count.clamp(min=1)
    dist.all_reduce(count)
    return total * dist.get_world_size() / count.clamp(min=1)
