"""Products of matrices on a CPU by oneDNN, which for these sizes is faster than what PyTorch calls for them.

`Product` is for the same weights times many inputs, without gradients: they are laid out once, as its kernels want it.
Where this build of PyTorch cannot do so, or for other numbers than float32, it is what PyTorch does by itself. Both
give the same to rounding.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor


class Product:
    """x -> x Wᵀ + b, step after step; W must not change meanwhile.

    With few rows of x a product waits for W. oneDNN keeps it in blocks, in which it is read in order: with 8 to 64 rows
    this takes half to three quarters of the time.
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach()
        self._blocks = torch.ops.mkldnn._reorder_linear_weight(self._weight) if _fits(weight) else None

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (N, in) -> (N, out)."""
        if self._blocks is None or not len(x):
            return F.linear(x, self._weight, bias)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._blocks, bias, "none", [], "")
        return out


def _fits(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and _blocks()


@cache
def _blocks() -> bool:
    """Whether PyTorch multiplies by weights in blocks: the operators that `torch.compile` uses, tried once."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    x, weight, bias = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3), torch.ones(4)
    try:
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight)
        out = torch.ops.mkldnn._linear_pointwise(x, blocks, bias, "none", [], "")
        return bool(torch.equal(out, F.linear(x, weight, bias)))  # small whole numbers: exact in any order
    except (AttributeError, RuntimeError, NotImplementedError, TypeError):
        return False
