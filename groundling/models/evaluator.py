"""The evaluator of a captioning GAN: did a person write this caption of this image? (Dai et al., ICCV 2017)"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groundling.models.neuraltalk import whole_image
from groundling.tensors import Regions
from groundling.types import PAD


class Evaluator(nn.Module):
    """The logit of  r(I, S) = σ(⟨f(I), h(S)⟩):  f is a linear map of the image vector, h the last state of an LSTM."""

    def __init__(self, vocab_size: int, dim: int, whole: int = 0, hidden: int = 512, embed: int = 512) -> None:
        super().__init__()
        self.sees_whole = whole > 0
        self.image = nn.Linear(whole or dim, hidden)
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        self.lstm = nn.LSTM(embed, hidden, batch_first=True)

    def forward(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        """Captions (N, T), words up to EOS or the limit, then PAD, of images (N,) -> (N,)."""
        states, _ = self.lstm(self.embed(words))
        last = (words != PAD).sum(1).clamp(min=1) - 1
        caption = states[torch.arange(len(words), device=words.device), last]
        image = self.image(whole_image(regions, self.sees_whole))[image_of]
        score: Tensor = (image * caption).sum(1) / image.shape[1] ** 0.5
        return score
