"""Products of float32 matrices by oneDNN, which may take bfloat16 for them.

On a CPU with AMX (Intel's Xeons since 2023) it does: what goes into a product is rounded, to 8 bits of mantissa; sums,
weights and all else stay float32. On one with AVX512-BF16 alone (AMD since Zen 4) it keeps float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from groundling.errors import GroundlingError


@contextmanager
def bfloat16_products(wanted: bool) -> Iterator[None]:
    """As said above, in the `with` block; GroundlingError where this machine cannot. Not wanted: nothing changes."""
    if not wanted:
        yield
        return
    backend = require_bfloat16()
    before, backend.fp32_precision = backend.fp32_precision, "bf16"
    try:
        yield
    finally:
        backend.fp32_precision = before


def require_bfloat16() -> Any:
    """PyTorch's switch for such products; GroundlingError where this machine has none."""
    backend = getattr(torch.backends.mkldnn, "matmul", None)
    if backend is None or not hasattr(backend, "fp32_precision"):
        raise GroundlingError(f"--bfloat16 needs PyTorch 2.9 or later, this is {torch.__version__}: leave it out")
    if not (_has_amx() or torch.cpu._is_avx512_bf16_supported()):
        raise GroundlingError("--bfloat16 needs a CPU with AMX or AVX512-BF16 (Xeons since 2023, Zen 4): leave it out")
    return backend


def _has_amx() -> bool:
    return torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx()  # virtual machines may have it and refuse it
