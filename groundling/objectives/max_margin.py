"""The ranking loss that noise contrastive estimation is compared with (Wang et al. 2021, eq. 7)."""

from __future__ import annotations

import torch
from torch import Tensor

from groundling.objectives.mean import mean_over


def max_margin(scores: Tensor, image_of: Tensor, margin: float) -> Tensor:
    """Mean over sentences j of  Σ_{i' ≠ i} [m − S_{i,j} + S_{i',j}]₊,  i the image of j.

    scores: (N, B) S of each sentence with each image of the batch; image_of: (N,) int64.
    """
    own = scores.gather(1, image_of[:, None])  # (N, 1)
    violated = (margin - own + scores).clamp(min=0).scatter(1, image_of[:, None], 0.0)
    return mean_over(violated.sum(1), torch.ones_like(image_of, dtype=torch.bool))
