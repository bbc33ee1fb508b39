"""Attention that follows attention: the divergence of two of them."""

from __future__ import annotations

import torch
from torch import Tensor

from groundling.objectives.mean import mean_over


def attention_kl(p: Tensor, q: Tensor, where: Tensor) -> Tensor:
    """Mean of  KL(p_t ‖ q_t) = Σ_r p_tr log(p_tr / q_tr)  over the positions in `where` (N, T); p, q are (N, T, R).

    Zhou et al. 2020, eq. 15, has the captioner as p and the guide as q; with the two exchanged it is what their code
    computes. A region without weight in p, such as padding, adds nothing.
    """
    return mean_over((p * (log(p) - log(q))).sum(-1), where)


def log(weights: Tensor) -> Tensor:
    """The logarithm, finite at 0 and with a gradient of 0 there."""
    return weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
