"""REINFORCE: the log-probability of a sampled caption, weighted by its reward."""

from __future__ import annotations

from torch import Tensor

from groundling.objectives.mean import mean_over
from groundling.types import PAD


def reinforce(logp: Tensor, tokens: Tensor, gain: Tensor) -> Tensor:
    """Mean over the words of sampled captions of  −(r(y) − b) log p(y_t | y_<t) ;  logp, tokens (N, T), gain (N,).

    Its gradient is the estimate of Zhou et al. 2020, eq. 18, −(r(y) − b) ∇log p(y), summed over the captions and
    divided by the number of their words. gain = r(y) − b: the reward, less what is to be expected without this caption.
    """
    return -mean_over(gain.detach()[:, None] * logp, tokens != PAD)
