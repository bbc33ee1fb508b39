"""Products in bfloat16: only what goes into a product is rounded, and only where that was asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from groundling.errors import GroundlingError
from groundling.training import precision
from groundling.training.precision import bfloat16_products

AMX = torch.cpu._is_amx_tile_supported()
able = pytest.mark.skipif(
    not (AMX or torch.cpu._is_avx512_bf16_supported()), reason="this CPU has neither AMX nor AVX512-BF16"
)
PRODUCTS = """
import torch
from groundling.training.precision import bfloat16_products
x, y = torch.full((64, 512), 1 + 2**-8), torch.ones(512, 64)
with bfloat16_products(True):
    rounded = x @ y
print(rounded.min().item(), rounded.max().item(), (x @ y).min().item())
"""


@able
def test_factors_are_rounded_to_bfloat16_with_amx_and_sums_are_not() -> None:
    """1 + 2^-8 is between two numbers of bfloat16 (8 bits) and goes to the even one, 1: 512 times 1 is 512, not 514.
    With AVX512-BF16 alone nothing is rounded.

    In a process of its own: here products may not use these instructions (conftest.py).
    """
    env = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    printed = subprocess.run([sys.executable, "-c", PRODUCTS], capture_output=True, text=True, env=env, check=True)
    assert printed.stdout.split() == [*["512.0" if AMX else "514.0"] * 2, "514.0"]


@able
def test_what_was_set_before_is_set_again_after_an_error() -> None:
    backend = torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    with pytest.raises(ZeroDivisionError), bfloat16_products(True):
        assert backend.fp32_precision == "bf16"
        raise ZeroDivisionError
    assert backend.fp32_precision == before


def test_a_cpu_without_such_instructions_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    with (
        pytest.raises(GroundlingError, match=r"--bfloat16 needs a CPU with AMX or AVX512-BF16.* leave it out"),
        bfloat16_products(True),
    ):
        raise AssertionError("it must not get here")
    with bfloat16_products(False):
        assert torch.equal(torch.ones(2, 2) @ torch.ones(2, 2), torch.full((2, 2), 2.0))


def test_an_older_pytorch_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    with pytest.raises(GroundlingError, match=r"PyTorch 2\.9"):
        precision.require_bfloat16()
