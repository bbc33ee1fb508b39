"""The tool that trains the network of photos: its products are the convolutions, and a run that is stopped goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import train_word_backbone as tool

from groundling.regions.sources._features import Same, load_word_backbone


@pytest.mark.parametrize("kernel, stride", [(3, 1), (5, 1), (5, 2), (3, 2)])
@pytest.mark.parametrize("size", [(6, 8), (7, 5), (1, 4)])
def test_a_depthwise_convolution_is_a_product_with_a_matrix_for_each_channel(
    kernel: int, stride: int, size: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    layer = Same(4, 4, kernel, stride, groups=4)
    x = torch.randn(3, 4, *size)
    expected = layer(x)
    y, after = tool.depthwise(layer, x.flatten(2).transpose(0, 1), size)
    assert after == tuple(expected.shape[2:])
    torch.testing.assert_close(y.transpose(0, 1).view_as(expected), expected, rtol=1e-5, atol=1e-5)


def test_the_late_stages_as_products_are_those_of_the_network_and_say_the_same_words() -> None:
    words = load_word_backbone()
    linear = nn.Linear(1280, len(words.words))
    with torch.no_grad():
        linear.weight.copy_(words.weight)
        linear.bias.copy_(words.bias)
        early = words.network.early(torch.randn(2, 3, 96, 128, generator=torch.Generator().manual_seed(0)))
        late = tool.Late(words.network, linear, torch.float32)
        cells, size = late.maps(early)
        expected = words.network.late(early)
        torch.testing.assert_close(cells.transpose(0, 1).view_as(expected), expected, rtol=1e-3, atol=1e-4)
        absence = torch.stack([48 * nn.functional.softplus(words.cells(one)).mean(0) for one in expected])
        torch.testing.assert_close(late(early), absence, rtol=1e-3, atol=1e-5)
    assert size == (3, 4)


def test_the_loss_of_a_word_that_is_as_likely_as_not_is_log_2() -> None:
    """absence = −log(1 − 1/2) = log 2: both −log p and −log(1 − p) are log 2."""
    absence = torch.full((1, 2), 2.0).log()
    torch.testing.assert_close(tool.noisy_or_loss(absence, torch.tensor([[1.0, 0.0]])), 2 * torch.tensor(2.0).log())


def test_a_turned_projection_finds_the_axes_of_an_earlier_one() -> None:
    """Features that were turned as a whole are turned back: what was learned from them before still fits."""
    torch.manual_seed(0)
    x = torch.randn(200, 6, dtype=torch.float64) * torch.arange(1, 7)
    before = tool.projection(x, 6)
    turn, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))
    now = tool.turned(tool.projection(x @ turn, 6), x @ turn, before(x))
    torch.testing.assert_close(now(x @ turn), before(x), rtol=1e-4, atol=1e-4)


def test_a_crop_keeps_an_even_number_of_cells_and_no_fewer_than_a_few() -> None:
    x = torch.arange(14 * 20).view(1, 1, 14, 20).float()
    shapes = {tuple(tool.augmented(x, np.random.default_rng(seed)).shape[2:]) for seed in range(200)}
    assert len(shapes) > 5 and (14, 20) in shapes
    assert all(side % 2 == 0 and side >= tool.FEW for shape in shapes for side in shape)


def test_a_stopped_training_goes_on_and_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight photos, the first four of which have the word: whole, and stopped after three of six steps."""
    monkeypatch.setattr(tool, "BATCH", 4)
    monkeypatch.setattr(tool, "SAVE", 3)
    maps = torch.randn(8, 120, 8, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    np.save(tmp_path / "8x8-0.npy", maps.view(torch.int16).numpy())
    ids = [str(i) for i in range(8)]
    (tmp_path / "8x8-0.json").write_text(json.dumps(ids))
    true = {id: [0] if int(id) < 4 else [] for id in ids}

    def late() -> tool.Late:
        torch.manual_seed(0)
        return tool.Late(load_word_backbone().network, tool.likely_as(torch.tensor([0.5])))

    whole, stopped = late(), late()
    before = whole.head.weight.clone()
    tool.train(whole, tool.Maps([tmp_path / "8x8-0.npy"]), true, 24, tmp_path / "whole", 0)
    with monkeypatch.context() as patch:
        patch.setattr(tool, "update", stopping_after(tool.update, 4))
        with pytest.raises(KeyboardInterrupt):
            tool.train(stopped, tool.Maps([tmp_path / "8x8-0.npy"]), true, 24, tmp_path / "stopped", 0)
    again = late()
    tool.train(again, tool.Maps([tmp_path / "8x8-0.npy"]), true, 24, tmp_path / "stopped", 0)
    assert all(torch.equal(x, again.state_dict()[name]) for name, x in whole.state_dict().items())
    assert not torch.equal(whole.head.weight, before)
    with pytest.raises(SystemExit, match="another start"):
        tool.train(late(), tool.Maps([tmp_path / "8x8-0.npy"]), true, 28, tmp_path / "stopped", 0)


def stopping_after(update: Callable[..., float], steps: int) -> Callable[..., float]:
    left = iter(range(steps))

    def stopping(*args: Any) -> float:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return update(*args)

    return stopping
