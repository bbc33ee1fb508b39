"""Attention that follows boxes: the second term of eq. 16 of Zhou et al. 2020, in the forms of paper and released code.

u_ti: IoU of region i with the box of word t.  γ_ti = 1 where u_ti > 0.5, else 0.  β: attention of the captioner. All
are (N, T, R). Only words with a true region count. A KL-divergence to the truth is `attention_kl(target, β, γ.any(-1))`
with the target `softened(u, valid)` of the released code, or `uniform(γ)`, which is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from groundling.objectives.attention_kl import log
from groundling.objectives.mean import mean_over


def attention_cross_entropy(attn: Tensor, truth: Tensor) -> Tensor:
    """Eq. 16 as printed: mean over words of  Σ_i −γ_ti log β_ti ."""
    return mean_over(-(truth * log(attn)).sum(-1), truth.any(-1))


def attention_nll_best(attn: Tensor, shared: Tensor, truth: Tensor) -> Tensor:
    """As released: mean over words of  −log β_ti,  i = argmax_i u_ti : at the one region that fits best."""
    best = attn.gather(-1, shared.argmax(-1, keepdim=True)).squeeze(-1)
    return mean_over(-log(best), truth.any(-1))


def attention_nll(attn: Tensor, truth: Tensor) -> Tensor:
    """Ours: mean over words of  −log Σ_i γ_ti β_ti : that the captioner looks at one of the true regions, whichever."""
    return mean_over(-log((truth * attn).sum(-1)), truth.any(-1))


def softened(shared: Tensor, valid: Tensor, temperature: float = 0.5) -> Tensor:
    """softmax_i(u_ti / 0.5) over the real regions, the target of the released code; valid (N, R)."""
    logits = (shared / temperature).masked_fill(~valid[:, None], -torch.inf)
    return logits.softmax(-1).nan_to_num()


def uniform(truth: Tensor) -> Tensor:
    """γ_t / Σ_i γ_ti, float: equal weight on each true region; all 0 for a word that has none."""
    return truth / truth.sum(-1, keepdim=True).clamp(min=1)
