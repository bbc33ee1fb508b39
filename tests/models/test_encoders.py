"""Regions to memory: padding stays nothing, places are fractions, missing inputs are named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny import regions

from groundling.models.layers import GroundingAware, Plain, locations
from groundling.tensors import Regions


def test_plain_is_a_linear_map_a_relu_and_a_mean_over_real_regions() -> None:
    """W = 2, b = 1: regions 1 and -3 become 3 and 0; their mean is 1.5 with or without padding."""
    encoder = Plain(1, 1, dropout=0)
    with torch.no_grad():
        encoder.embed[0].weight.fill_(2)
        encoder.embed[0].bias.fill_(1)
    one = Regions.of(torch.tensor([[1.0], [-3.0]]), torch.zeros(2, 4), (1, 1))
    three = Regions.of(torch.ones(3, 1), torch.zeros(3, 4), (1, 1))
    memory, whole, grid = encoder(Regions.stack([one, three]))
    assert memory[0].flatten().tolist() == [3, 0, 0]
    assert whole.flatten().tolist() == [1.5, 3]
    assert grid is None


def test_locations_are_fractions_of_image_and_video() -> None:
    box = torch.tensor([[0.0, 20, 50, 40], [0, 0, 100, 40]])
    image = Regions.of(torch.zeros(2, 1), box, (100, 40))
    video = replace(image, frame=torch.tensor([[0, 4]]))
    assert locations(image).tolist() == [[[0, 0.5, 0.5, 1, 0], [0, 0, 1, 1, 0]]]
    assert locations(video)[0, :, 4].tolist() == [0, 1]


def grounding_aware(**sizes: int) -> GroundingAware:
    torch.manual_seed(0)
    return GroundingAware(5, classes=4, hidden=6, location=3, **sizes).double().eval()


def test_grounding_aware_regions_depend_on_their_place() -> None:
    seen, encoder = regions(3), grounding_aware()
    moved = replace(seen, boxes=seen.boxes + 10)
    assert not torch.allclose(encoder(seen)[0], encoder(moved)[0])


@pytest.mark.parametrize("encoder", [Plain(5, 6).double().eval(), grounding_aware()], ids=["plain", "aware"])
def test_padding_regions_changes_nothing(encoder: Plain | GroundingAware) -> None:
    alone, padded = encoder(regions(3)), encoder(regions(3, 6))
    torch.testing.assert_close(padded[0][:1, :3], alone[0])
    assert padded[0][0, 3:].abs().sum() == 0
    torch.testing.assert_close(padded[1][:1], alone[1])


@pytest.mark.parametrize("encoder", [Plain(5, 6).double().eval(), grounding_aware()], ids=["plain", "aware"])
def test_permuting_regions_permutes_the_memory(encoder: Plain | GroundingAware) -> None:
    seen, order = regions(4), torch.tensor([2, 0, 3, 1])
    mixed = encoder(replace(seen, feats=seen.feats[:, order], boxes=seen.boxes[:, order]))
    torch.testing.assert_close(mixed[0], encoder(seen)[0][:, order])
    torch.testing.assert_close(mixed[1], encoder(seen)[1])


def test_an_image_without_regions_is_zero_and_has_gradients() -> None:
    empty = regions(0, 2)
    for encoder in (Plain(5, 6).double(), grounding_aware()):
        memory, whole, _ = encoder(empty)
        assert whole[0].tolist() == [0] * 6
        (memory.sum() + whole.sum()).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


def test_image_vector_and_feature_map_are_used_where_the_encoder_has_a_place_for_them() -> None:
    encoder = grounding_aware(whole=2, grid=3)
    seen = replace(regions(3), whole=torch.ones(1, 2).double(), grid=torch.ones(1, 4, 3).double())
    _, whole, grid = encoder(seen)
    assert grid is not None and grid.shape == (1, 4, 6)
    _, other, _ = encoder(replace(seen, whole=-torch.ones(1, 2).double()))
    assert not torch.allclose(whole, other)


@pytest.mark.parametrize(("sizes", "name"), [({"whole": 2}, "regions.whole"), ({"grid": 2}, "regions.grid")])
def test_what_the_regions_lack_is_named(sizes: dict[str, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        grounding_aware(**sizes)(regions(3))
