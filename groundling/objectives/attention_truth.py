"""Attention that follows boxes: the second term of eq. 16 of Zhou et al. 2020, in the three forms that they name.

γ_ti = 1 where region i overlaps a true box of word t, else 0; β: attention of the captioner. Both are (N, T, R). Only
words with a true region count. The KL-divergence to the truth is `attention_kl(uniform(γ), β, γ.any(-1))`.
"""

from __future__ import annotations

from torch import Tensor

from groundling.objectives.attention_kl import log
from groundling.objectives.mean import mean_over


def attention_cross_entropy(attn: Tensor, truth: Tensor) -> Tensor:
    """Eq. 16 as printed: mean over words of  Σ_i −γ_ti log β_ti ."""
    return mean_over(-(truth * log(attn)).sum(-1), truth.any(-1))


def attention_nll(attn: Tensor, truth: Tensor) -> Tensor:
    """Mean over words of  −log Σ_i γ_ti β_ti : that the captioner looks at one of the true regions, whichever."""
    return mean_over(-log((truth * attn).sum(-1)), truth.any(-1))


def uniform(truth: Tensor) -> Tensor:
    """γ_t / Σ_i γ_ti, float: equal weight on each true region; all 0 for a word that has none."""
    return truth / truth.sum(-1, keepdim=True).clamp(min=1)
