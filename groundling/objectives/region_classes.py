"""Region classification: the classifiers of the grounding-aware encoding, taught by the boxes of words."""

from __future__ import annotations

from torch import Tensor

from groundling.objectives.mean import mean_over


def region_cross_entropy(logits: Tensor, truth: Tensor, classes: Tensor) -> Tensor:
    """Mean of −log softmax(logits_i)[c_t] over words t of a class and their true regions i.

    logits (N, R, C), truth (N, T, R) bool, classes (N, T) int64, -1 for words without a class.
    """
    logp = logits.log_softmax(-1).transpose(1, 2)  # (N, C, R)
    picked = classes.clamp(min=0)[..., None].expand(-1, -1, logits.shape[1])  # (N, T, R)
    return mean_over(-logp.gather(1, picked), truth & (classes >= 0)[..., None])
