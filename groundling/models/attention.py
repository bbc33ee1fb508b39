"""Attentions over the regions of an encoded image, called as `attend(query, encoded) -> context, weights`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groundling.tensors import EncodedImage


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

    def forward(self, query: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        q = encoded.fold(self.of_query(query))  # (b, g, A), the rows of b images side by side
        keys, memory, valid = (first(x, len(q)) for x in (encoded.keys, encoded.memory, encoded.valid))
        mixed = (keys[:, None] + q[:, :, None]).tanh_()  # (b, g, R, A): in place, for nothing else here is as large
        weights = masked_softmax(self.weigh(mixed).squeeze(-1), valid[:, None])  # (b, g, R)
        return encoded.unfold(weights.to(memory.dtype) @ memory), encoded.unfold(weights)


def masked_softmax(z: Tensor, valid: Tensor) -> Tensor:
    """Softmax over the last axis, in float32 at least; exactly 0 where not valid, and everywhere when nothing is."""
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    return z.masked_fill(~valid, torch.finfo(z.dtype).min).softmax(-1) * valid


def first(x: Tensor, b: int) -> Tensor:
    """The first b rows."""
    return x if len(x) == b else x[:b]  # the gradient of a slice is a copy, even of a slice of everything
