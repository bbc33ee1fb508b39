"""Features on one scale."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from groundling.models.layers import Standard
from groundling.models.scan import Scan
from groundling.tensors import Regions


def test_mean_0_and_deviation_1_of_the_batch_and_later_of_all_batches_alike() -> None:
    torch.manual_seed(0)
    norm, batches = Standard(3), [5 + 2 * torch.randn(100, 3), 9 + torch.randn(100, 3)]
    for x in batches:
        torch.testing.assert_close(norm(x), (x - x.mean(0)) / x.std(0, correction=0), atol=1e-4, rtol=1e-4)
    norm.eval()
    mean, var = (torch.stack([f(x) for x in batches]).mean(0) for f in (lambda x: x.mean(0), lambda x: x.var(0)))
    torch.testing.assert_close(norm(batches[0]), (batches[0] - mean) / var.sqrt(), atol=1e-4, rtol=1e-4)


def test_after_one_batch_it_is_seen_alike_in_training_and_later() -> None:
    torch.manual_seed(0)
    norm, x = Standard(3), 5 + torch.randn(1000, 3)
    torch.testing.assert_close(norm(x), norm.eval()(x), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_for_a_deviation_take_that_of_the_batches_before(rows: int) -> None:
    norm = Standard(2)
    norm(torch.tensor([[0.0, 2], [4, 2], [2, 8]]))
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    x = torch.tensor([[2.0, 4]])[:rows]
    torch.testing.assert_close(norm(x), torch.zeros(rows, 2), atol=1e-5, rtol=0)
    torch.testing.assert_close(dict(norm.state_dict()), before)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_a_matcher_trains_on_one_region_of_any_type(kind: torch.dtype) -> None:
    matcher = Scan(11, 4, hidden=6, embed=4).to(kind).train()
    one = Regions.of(torch.randn(1, 4), torch.tensor([[0.0, 0, 1, 1]]), (1, 1))
    seen = matcher.encode_regions(replace(one, feats=one.feats.to(kind)))
    torch.testing.assert_close(seen.norm(dim=-1), torch.ones(1, 1))
