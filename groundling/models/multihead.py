"""Multi-head attention (Vaswani et al. 2017) over the regions of an image: what multi-branch attention is
compared with.

    β^h = softmax(q_hᵀ k_hi / √d),   v̂ = W_o [Σ_i β^1_i v_1i; …; Σ_i β^h_i v_hi]

with q = W_q h1, k = W_k v', v = W_v v', each cut into heads of size d. The weights that it shows are the mean of the
heads'. The heads see all regions and their contexts are mixed before a word is chosen, so nothing makes them agree on a
thing, nor look at different parts of it.
"""

from __future__ import annotations

from torch import Tensor, nn

from groundling.models.layers import masked_softmax
from groundling.tensors import EncodedImage


class MultiHead(nn.Module):
    """An attention of `heads` heads, `size / heads` wide each."""

    def __init__(self, hidden: int, size: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ValueError(f"size must be a multiple of the number of heads, got {size} and {heads}")
        self.heads = heads
        self.of_query = nn.Linear(hidden, size)
        self.of_memory = nn.Linear(hidden, 2 * size)  # keys, then values: both are made once per image
        self.out = nn.Linear(size, hidden)

    def keys(self, memory: Tensor) -> Tensor:
        keys: Tensor = self.of_memory(memory)
        return keys

    def forward(self, query: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        q = self._cut(encoded.fold(self.of_query(query)))  # (b, h, g, d), the rows of b images side by side
        keys, valid = (x if len(x) == len(q) else x[: len(q)] for x in (encoded.keys, encoded.valid))
        k, v = (self._cut(x) for x in keys.chunk(2, -1))  # (b, h, R, d)
        weights = masked_softmax(q @ k.transpose(2, 3) * q.shape[-1] ** -0.5, valid[:, None, None])  # (b, h, g, R)
        heads = (weights.to(v.dtype) @ v).transpose(1, 2).flatten(2)  # (b, g, A)
        context: Tensor = self.out(encoded.unfold(heads))
        return context, encoded.unfold(weights.mean(1))

    def _cut(self, x: Tensor) -> Tensor:
        """(b, n, A) -> (b, h, n, d)."""
        b, n, size = x.shape
        return x.view(b, n, self.heads, size // self.heads).transpose(1, 2)
