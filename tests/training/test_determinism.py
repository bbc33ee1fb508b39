"""Several threads add in the same order every time, so that a seed means the same weights."""

from __future__ import annotations

import torch

from groundling.training.determinism import use_deterministic_kernels


def test_sums_of_two_threads_are_the_same_every_time() -> None:
    use_deterministic_kernels(torch.device("cpu"))
    values = torch.randn(400_000, generator=torch.Generator().manual_seed(0))
    places = torch.randint(0, 3, (400_000,), generator=torch.Generator().manual_seed(1))
    torch.set_num_threads(2)
    try:
        sums = [torch.zeros(3).index_put_((places,), values, accumulate=True) for _ in range(20)]
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(sums[0], other) for other in sums)
    assert torch.are_deterministic_algorithms_enabled()
