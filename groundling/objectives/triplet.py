"""The matcher's objective: an image and its caption fit better than either does with its hardest rival in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from groundling.objectives.mean import mean_over


def hardest(scores: Tensor, image_of: Tensor) -> tuple[Tensor, Tensor]:
    """The rivals of each caption T of image I: T̂ = argmax S(I, c) and Î = argmax S(p, T), (N,) and (N,).

    `scores` is S (B, N), and `image_of` (N,) its label: c is never a caption of I, nor p the image of T. With one image
    there are no rivals; what is returned then means nothing.
    """
    own = torch.arange(len(scores), device=scores.device)[:, None] == image_of
    others = scores.masked_fill(own, -torch.inf)
    return others.argmax(1)[image_of], others.argmax(0)


def triplet(own: Tensor, caption: Tensor, image: Tensor, where: Tensor, margin: float) -> Tensor:
    """Mean over the captions in `where` of  [m − S(I, T) + S(I, T̂)]₊ + [m − S(I, T) + S(Î, T)]₊  (eq. 7).

    S(I, T), S(I, T̂), S(Î, T) are given for each of them, all (N,).
    """
    return mean_over((margin - own + caption).relu() + (margin - own + image).relu(), where)
