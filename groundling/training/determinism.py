"""The same numbers every time."""

from __future__ import annotations

import hashlib
import os
import random

import numpy as np
import torch


def seed_everything(*numbers: int) -> None:
    """Seed torch, numpy and Python with a hash of `numbers`: (seed,) or (seed, stage, epoch, step, rank).

    Done before every step, it makes random numbers a function of the place, so that a run can be resumed anywhere
    without saving the state of any generator, and processes draw different dropout.
    """
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    torch.default_generator.manual_seed(number)  # all that torch.manual_seed does, without its millisecond
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)
    np.random.seed(number % 2**32)
    random.seed(number)


def use_deterministic_kernels(device: torch.device) -> None:
    """Ask for kernels that add in the same order every time: some do not, on a GPU or with several threads of a CPU."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # costs time, shows bugs
