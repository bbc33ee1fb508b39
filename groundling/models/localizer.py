"""Where a word is, from the word alone: the one layer that cyclical training adds, and that inference does not need."""

from __future__ import annotations

from torch import Tensor, nn

from groundling.models.layers import first, masked_softmax
from groundling.tensors import EncodedImage


class Localizer(nn.Module):
    """z_n = (W_l e)ᵀ r_n / √A,  β = softmax(z),  r̂ = Σ β_n v_n  (Ma et al. 2020, eq. 6, which has no √A).

    Dividing by √A, the size of r_n, is another scale of W_l: with the large steps that suit small models, β would else
    be one region before W_l has learned which.

    e: what is asked about, mostly the embedding of a word.  r_n: a region as the captioner's attention compares it
    (`encoded.keys`).  v_n: the same region as the captioner sees it (`encoded.memory`).  `ask` is W_l, or more than one
    layer in its place.
    """

    def __init__(self, ask: nn.Module) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, query: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        """(N, E) -> context (N, H), weights (N, R) that are exactly 0 on invalid regions."""
        q = encoded.fold(self.ask(query))  # (b, g, A), the rows of b images side by side
        keys, memory, valid = (first(x, len(q)) for x in (encoded.keys, encoded.memory, encoded.valid))
        weights = masked_softmax(q @ keys.transpose(1, 2) / q.shape[-1] ** 0.5, valid[:, None])  # (b, g, R)
        return encoded.unfold(weights.to(memory.dtype) @ memory), encoded.unfold(weights)


def perceptron(size: int, out: int, layers: int) -> nn.Sequential:
    """`layers` linear layers with ReLU between them; one layer is a matrix and a bias."""
    made: list[nn.Module] = [nn.Linear(size, out)]
    for _ in range(layers - 1):
        made += [nn.ReLU(), nn.Linear(out, out)]
    return nn.Sequential(*made)
