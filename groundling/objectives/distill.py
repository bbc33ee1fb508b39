"""Distillation of a detector's labels into the scores of regions (Wang et al. 2021, eq. 3 and 4)."""

from __future__ import annotations

import torch
from torch import Tensor

from groundling.objectives.mean import mean_over


def soft_labels(evidence: Tensor, valid: Tensor, temperature: float) -> Tensor:
    """p̂ (P, R), eq. 3, of what the detector says: softmax over the valid regions of  Σ_z p(y, z) p(z | x) / T.

    With T = 0 the sum itself, divided by its total over the regions.

    evidence: (P, R), the sum for each phrase and region; valid: (P, R) bool.
    """
    if not temperature:
        real = evidence * valid
        return real / real.sum(-1, keepdim=True).clamp(min=1e-8)
    return (evidence / temperature).masked_fill(~valid, -torch.inf).softmax(-1).nan_to_num(0.0)


def distill(scores: Tensor, target: Tensor, valid: Tensor, where: Tensor, temperature: float) -> Tensor:
    """Mean over the phrases in `where` of  −Σ_l p̂_l log ĥ_l,   ĥ = softmax(s / τ) over the regions of the image.

    scores, target, valid: (P, R); where: (P,) bool. A phrase without a valid region counts 0.
    """
    some = valid | ~valid.any(-1, keepdim=True)  # a row without regions stays finite; its target is 0
    logh = (scores / temperature).masked_fill(~some, -torch.inf).log_softmax(-1)
    each = -torch.where(target > 0, target * logh, 0.0).sum(-1)
    return mean_over(each, where)
