"""Features of a frozen detector on one scale."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Standard(nn.BatchNorm1d):
    """(N, D) brought to mean 0 and deviation 1, of each batch while training, later of all batches that were seen.

    The features do not change while models learn, so all batches count alike: the mean over them is right from the
    first one on. A single row has no deviation and takes theirs.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size, affine=False, momentum=None)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, eps=self.eps)
