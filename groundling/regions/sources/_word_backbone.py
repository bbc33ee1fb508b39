"""EfficientNet-Lite2 fine-tuned on captions: a map of 1280 channels, and for each cell how likely each word is.

    z_cw = w_w · f_c + b_w        p_w = 1 − Π_c (1 − σ(z_cw))^(48/G)        (noisy-or over the G cells of the image)

The exponent makes maps of all sizes alike: in training a photo had 8 x 6 cells.

Trained on images and the words of their captions alone (tools/train_word_backbone.py). The file also holds the
projections that make region features short. C channels · G cells · W words · R regions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from groundling.regions.sources._backbone import Backbone
from groundling.regions.sources._files import Pinned

Floats = NDArray[np.float32]

CELLS = 48  # of a photo in training
FILE = Pinned(
    "groundling",
    "regions/sources/word_backbone.safetensors",
    "4033649e9e79b2e853ef0bc985c221d35700ffc556dd5573520cf52cc4dbd133",
)


@dataclass(frozen=True)
class Projection:
    """x -> (x − mean) @ matrix: principal components, each divided by the square root of its deviation."""

    mean: Tensor  # (C,)
    matrix: Tensor  # (C, D)

    def __call__(self, x: Floats) -> Floats:
        """(N, C) -> (N, D)"""
        y: Floats = ((torch.from_numpy(x) - self.mean) @ self.matrix).numpy()
        return y


@dataclass(frozen=True)
class WordBackbone:
    """The network, its words, and the projections of its map and of the detector's maps."""

    network: Backbone
    words: tuple[str, ...]
    weight: Tensor  # (W, 1280)
    bias: Tensor  # (W,)
    seen: Projection  # of the network's own features
    detected: Projection  # of the detector's

    def cells(self, grid: Tensor) -> Tensor:
        """(1280, H, W') map -> (G, W) logits of the words in each cell."""
        return F.linear(grid.flatten(1).T, self.weight, self.bias)


def absence(cells: Tensor) -> Tensor:
    """(G, W) logits -> (W,): −log(1 − p), p being the noisy-or over the cells."""
    return CELLS * F.softplus(cells).mean(0)


def soft_iou(shares: Tensor, heat: Tensor) -> Tensor:
    """How well boxes cover heat maps: (R, G) share of each cell that is inside, (G, W) from 0 to 1 -> (R, W).

    Σ inside · heat / (Σ heat + Σ inside · (1 − heat)): the IoU, where heat is 0 or 1.
    """
    inside = shares @ heat  # (R, W)
    return inside / (heat.sum(0) + shares.sum(1, keepdim=True) - inside).clamp(min=1e-6)


def load() -> WordBackbone:
    """The pinned file, checked against its SHA-256 before anything of it is used."""
    content = FILE.read()
    state = {name: value.float() for name, value in safetensors.torch.load(content).items()}
    length = int.from_bytes(content[:8], "little")
    words = tuple(json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["words"]))
    own = {name.removeprefix("network."): value for name, value in state.items() if name.startswith("network.")}
    return WordBackbone(
        network=Backbone(own),
        words=words,
        weight=state["words.weight"],
        bias=state["words.bias"],
        seen=Projection(state["seen.mean"], state["seen.matrix"]),
        detected=Projection(state["detected.mean"], state["detected.matrix"]),
    )
