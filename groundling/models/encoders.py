"""Region encoders: Regions -> memory (B, R, H), whole (B, H), grid (B, C, H) or None.

Every embedding is Linear, ReLU, Dropout, as in the code that the papers build on; the equations leave out the last two.
Padding stays zero in `memory`, so a mean over valid regions is a sum and a division.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groundling.tensors import Regions


class Plain(nn.Module):
    """v'_i = W f_i + b, and v̄ their mean (Zhou et al. 2020, eq. 9 and 10)."""

    def __init__(self, dim: int, hidden: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.embed = embedding(dim, hidden, dropout)

    def forward(self, regions: Regions) -> tuple[Tensor, Tensor, None]:
        memory = self.embed(regions.feats) * regions.valid[..., None]
        return memory, mean_over(memory, regions.valid), None


class GroundingAware(nn.Module):
    """v_i = W [f_i; softmax(W_cᵀ f_i); W_l l_i]: what it looks like, which class it is like, where it is.

    (Ma et al. 2020, appendix D; Chen et al. 2021, section 3.2.) l_i = (x1/w, y1/h, x2/w, y2/h, time): the normalised
    box and, for a video, the region's frame over the last one. The three parts are brought to one scale by a layer norm
    without parameters before they are joined, as in the code of GVD.

    `whole` and `grid` are the sizes of the image vector and of the feature map of the region source; without an image
    vector (0) the whole image is the mean of its regions.
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        hidden: int,
        *,
        location: int = 300,
        whole: int = 0,
        grid: int = 0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.classify = nn.Linear(dim, classes)
        self.locate = embedding(5, location, dropout)
        self.embed = embedding(dim + classes + location, hidden, dropout)
        self.whole = embedding(whole, hidden, dropout) if whole else None
        self.grid = embedding(grid, hidden, dropout) if grid else None

    def forward(self, regions: Regions) -> tuple[Tensor, Tensor, Tensor | None]:
        parts = [regions.feats, self.classify(regions.feats).softmax(-1), self.locate(locations(regions))]
        joined = torch.cat([F.layer_norm(x, x.shape[-1:]) for x in parts], -1)
        memory = self.embed(joined) * regions.valid[..., None]
        whole, grid = mean_over(memory, regions.valid), None
        if self.whole is not None:
            if regions.whole is None:
                raise ValueError("this encoder expects an image vector, but the regions have none (regions.whole)")
            whole = self.whole(regions.whole)
        if self.grid is not None:
            if regions.grid is None:
                raise ValueError("this encoder expects a feature map, but the regions have none (regions.grid)")
            grid = self.grid(regions.grid)
        return memory, whole, grid


def embedding(size: int, hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Dropout(dropout))


def locations(regions: Regions) -> Tensor:
    """(B, R, 5): the box in fractions of the image, and the frame in fractions of the video (0 for an image)."""
    box = regions.boxes / regions.size.repeat(1, 2)[:, None].clamp(min=1)
    last = regions.frame.amax(1, keepdim=True).clamp(min=1)
    return torch.cat([box, (regions.frame / last)[..., None]], -1).to(regions.feats.dtype)


def mean_over(memory: Tensor, valid: Tensor) -> Tensor:
    """(B, R, H), zero where not valid -> (B, H); zero for an image without regions."""
    return memory.sum(1) / valid.sum(1, keepdim=True).clamp(min=1)
