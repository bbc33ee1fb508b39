"""Little pictures and captioners for tests: small enough to check by hand or by trying everything."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from groundling.models.layers import Additive, Plain
from groundling.models.updown import UpDown
from groundling.tensors import EncodedImage, Glimpse, Regions, without_special

DIM, HIDDEN, VOCAB = 5, 7, 11


def regions(*counts: int, seed: int = 0, dim: int = DIM, frames: int = 1) -> Regions:
    """Images with so many regions each, float64, padded to the largest."""
    g = torch.Generator().manual_seed(seed)
    images = []
    for count in counts:
        corners = torch.rand(count, 4, generator=g) * 50
        corners[:, 2:] += corners[:, :2]
        feats = torch.randn(count, dim, generator=g, dtype=torch.float64)
        images.append(Regions.of(feats, corners, (100, 80), frame=torch.arange(count) % frames))
    return Regions.stack(images)


def updown(seed: int = 0, gain: float = 3.0, vocab: int = VOCAB) -> UpDown:
    """Float64, in eval mode, with weights large enough that words and attention vary."""
    torch.manual_seed(seed)
    model = UpDown(vocab, Plain(DIM, HIDDEN), Additive(HIDDEN, 6), hidden=HIDDEN, embed=4).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(gain)
    return model


class Chain:
    """A captioner without weights: p(next | previous) is a table per image, and it attends to region `previous % R`.

    With `hurry` the table grows sharper with time, so that the same pairs in another order are not equally likely.
    """

    def __init__(self, logits: Tensor, hurry: float = 0.0, regions: int = 3) -> None:
        self.logits, self.hurry, self.regions = logits, hurry, regions  # (B, V, V)

    def table(self, image: Tensor, t: Tensor, previous: Tensor) -> Tensor:
        """(N,), (N,), (N,) -> log-probabilities (N, V)."""
        return (self.logits[image, previous] * (1 + self.hurry * t[:, None])).log_softmax(-1)

    def logp(self, image: int, words: list[int]) -> list[float]:
        t = torch.arange(len(words))
        logp = self.table(torch.full_like(t, image), t, torch.tensor([1, *words[:-1]]))
        return logp[t, torch.tensor(words)].tolist()

    def encode(self, _: Regions) -> EncodedImage:
        b = len(self.logits)
        flat = torch.zeros(b, self.regions, 1, dtype=self.logits.dtype)
        valid = torch.ones(b, self.regions, dtype=torch.bool)
        return EncodedImage(flat, flat, valid, valid.long() - 1, flat[:, 0], torch.arange(b))

    def encoded(self) -> EncodedImage:
        return self.encode(regions(1))

    def start(self, encoded: EncodedImage) -> Any:
        """Which image each row has, and how many words: a captioner must not rely on the encoded."""
        return encoded.row, torch.zeros_like(encoded.row)

    def step(
        self, token: Tensor, encoded: EncodedImage, state: Any, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, Any]:
        image, t = state
        attn = torch.nn.functional.one_hot(token % self.regions, self.regions).to(self.logits.dtype)
        logp = self.table(image, t, token)
        return without_special(logp).log_softmax(-1) if mask_special else logp, Glimpse(attn), (image, t + 1)
