"""Contrastive learning of captions: likelier than the reference finds them if they are true, less likely if not."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from groundling.objectives.mean import mean_over


def true_pairs(ratio: Tensor, nu: float = 1.0) -> Tensor:
    """Mean of  −ln h,  h = r_ν(G) = 1 / (1 + ν exp(−G)),  over pairs of an image and a caption of it.

    G = ln p_m(c | I) − ln p_n(c | I) is `ratio`, of any shape; eq. 3 and 7 to 9 of Dai and Lin 2017.
    """
    return mean_over(F.softplus(math.log(nu) - ratio), torch.ones_like(ratio, dtype=torch.bool))


def false_pairs(ratio: Tensor, nu: float = 1.0) -> Tensor:
    """Mean of  −ln(1 − h)  over pairs of an image and a caption of another."""
    return mean_over(F.softplus(ratio - math.log(nu)), torch.ones_like(ratio, dtype=torch.bool))


def margin(own: Tensor, other: Tensor, where: Tensor, least: float) -> Tensor:
    """Mean over the captions in `where` of  max(0, M − ln p(c | I) + ln p(c | I')),  I their image, I' another.

    ln p(c | I), ln p(c | I') and `where` are (N,); M is `least`.
    """
    return mean_over((least - own + other).clamp(min=0), where)
