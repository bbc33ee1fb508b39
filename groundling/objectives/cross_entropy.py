"""Cross-entropy of the words of a reference: the captioner's first objective."""

from __future__ import annotations

from torch import Tensor

from groundling.objectives.mean import mean_over
from groundling.types import PAD


def cross_entropy(logp: Tensor, targets: Tensor) -> Tensor:
    """Mean over the words (EOS included, PAD not) of  −log p(y*_t | y*_1 … y*_{t−1});  both arguments are (N, T)."""
    return -mean_over(logp, targets != PAD)
