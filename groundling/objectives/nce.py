"""Contrast of an image with the others of the batch (Wang et al. 2021, eq. 5)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from groundling.objectives.mean import mean_over


def nce(scores: Tensor, image_of: Tensor, temperature: float) -> Tensor:
    """Mean over sentences j of  −log h_j,   h_j = exp(S_{i,j}/τ) / Σ_{i'} exp(S_{i',j}/τ),  i the image of j.

    scores: (N, B) S of each sentence with each image of the batch; image_of: (N,) int64.
    """
    each = F.cross_entropy(scores / temperature, image_of, reduction="none")
    return mean_over(each, torch.ones_like(image_of, dtype=torch.bool))
