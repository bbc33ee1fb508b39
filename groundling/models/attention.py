"""Attentions over the regions of a scene, called as `attend(query, scene) -> context, weights`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groundling.tensors import Scene


class Additive(nn.Module):
    """z_i = wᵀ tanh(W_v v_i + W_h h), β = softmax(z), v̂ = Σ β_i v_i  (Zhou et al. 2020, eq. 11 and 12).

    W_v v_i is made once per image (`keys`), and rows that look at the same image share it by broadcasting.
    """

    def __init__(self, hidden: int, size: int) -> None:
        super().__init__()
        self.of_memory = nn.Linear(hidden, size)
        self.of_query = nn.Linear(hidden, size, bias=False)
        self.weigh = nn.Linear(size, 1, bias=False)  # a bias would vanish in the softmax

    def keys(self, memory: Tensor) -> Tensor:
        keys: Tensor = self.of_memory(memory)
        return keys

    def forward(self, query: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
        q = scene.fold(self.of_query(query))  # (b, g, A)
        b = len(q)
        z = self.weigh(torch.tanh(scene.keys[:b, None] + q[:, :, None])).squeeze(-1)  # (b, g, R)
        weights = masked_softmax(z, scene.valid[:b, None])
        return scene.unfold(weights @ scene.memory[:b]), scene.unfold(weights)


def masked_softmax(z: Tensor, valid: Tensor) -> Tensor:
    """Softmax over the last axis; exactly 0 where not valid, and everywhere when nothing is."""
    return z.masked_fill(~valid, torch.finfo(z.dtype).min).softmax(-1) * valid
