"""Heat maps: how well a phrase fits each part of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

MOST = 4096  # pixels of the longer side

if TYPE_CHECKING:
    from torch import Tensor

    from groundling.tensors import Regions


def heat(regions: Regions, similarity: Tensor, size: tuple[int, int]) -> Tensor:
    """(height, width): for every pixel the mean score of the regions that cover it, 0 to 1 over the image.

    regions: of one image; similarity: (R,) of one phrase; size: width and height of the map, of which no side is
    made longer than MOST.
    """
    import torch

    width, height = (max(1, min(side, MOST * side // max(size))) for side in size)
    real = regions.valid[0]
    scale = torch.tensor([width, height]) / regions.size[0].clamp(min=1)
    boxes = regions.boxes[0][real] * scale.repeat(2)
    x, y = torch.arange(width) + 0.5, torch.arange(height) + 0.5
    across = ((x >= boxes[:, :1]) & (x < boxes[:, 2:3])).float()  # (R, width)
    down = ((y >= boxes[:, 1:2]) & (y < boxes[:, 3:])).float()
    covered = down.T @ across
    total = down.T @ (across * similarity[real].cpu().float()[:, None])
    mean = torch.where(covered > 0, total / covered.clamp(min=1), torch.inf)
    low, high = mean.min(), mean[covered > 0].max() if (covered > 0).any() else mean.min()
    return ((mean.clamp(max=float(high)) - low) / (high - low).clamp(min=1e-6)).masked_fill(covered == 0, 0.0)


def paint(image: Image.Image, warmth: Tensor) -> Image.Image:
    """The image with a heat map (height, width) over it, red where it is warm."""
    import numpy as np

    warm = np.asarray(warmth)[..., None]
    red, blue = np.array([230.0, 25, 40]), np.array([30.0, 50, 160])
    colour = warm * red + (1 - warm) * blue
    grey = np.asarray(image.convert("RGB").resize(warm.shape[1::-1], reducing_gap=3.0), float)
    return Image.fromarray((0.55 * grey + 0.45 * colour).clip(0, 255).astype(np.uint8))
