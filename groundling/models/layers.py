"""Layers that models share: encoders of regions, attention over them, and the scores of words.

A region encoder is called as `encode(regions) -> memory (B, R, H), whole (B, H), grid (B, C, H) or None`, an attention
as `attend(query, encoded) -> context, weights`. Every embedding is Linear, ReLU, Dropout, as in the code that the
papers build on; the equations leave out the last two. Padding stays zero in `memory`, so a mean over valid regions is a
sum and a division.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groundling.tensors import EncodedImage, Regions, without_special
from groundling.types import EOS, PAD

# ---------------------------------------------------------------- encoders of regions


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


class Standard(nn.BatchNorm1d):
    """Features of a frozen detector (N, D), brought to mean 0 and deviation 1.

    Mean and deviation are those of the batch while training, later those of all batches that were seen. The features do
    not change while models learn, so all batches count alike: the mean over them is right from the first one on. A
    single row has no deviation and takes theirs.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size, affine=False, momentum=None)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, eps=self.eps)


# ---------------------------------------------------------------- attention


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


# ---------------------------------------------------------------- words


def is_word(words: Tensor) -> Tensor:
    """(N, T) bool: what comes before the first EOS or PAD."""
    return ((words == EOS) | (words == PAD)).cumsum(1) == 0


def scores(layer: nn.Linear, h: Tensor, mask_special: bool) -> Tensor:
    """Logits (..., V); `mask_special`: PAD, BOS and UNK have no part in the softmax and learn nothing."""
    return F.linear(h, layer.weight, score_bias(layer, mask_special))


def score_bias(layer: nn.Linear, mask_special: bool) -> Tensor:
    return without_special(layer.bias, -1e4) if mask_special else layer.bias


class WordLink(nn.Module):
    """Logits with the word scores of the image vector added: W_o h2_t + b_o + σ(uᵀ h2_t + c) a ⊙ z.

    z: the log-odds of each word of the vocabulary in the image vector (0 for words that it lacks).  a: one learned
    number for each word.  The gate decides where in a sentence these scores count.
    """

    column: Tensor

    def __init__(self, columns: Sequence[int], hidden: int, gain: float = 0.35) -> None:
        """`columns`: of each word of the vocabulary in the image vector; -1: it has none."""
        super().__init__()
        self.register_buffer("column", torch.tensor(columns))
        self.gain = nn.Parameter(torch.full((len(columns),), gain))
        self.gate = nn.Linear(hidden, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, 2.0)

    def forward(self, whole: Tensor | None) -> Tensor:
        """Image vectors (B, G) -> a ⊙ z (B, V)."""
        if whole is None:
            raise ValueError("this captioner takes words from image vectors, but the regions have none (regions.whole)")
        return self.gain * torch.where(self.column >= 0, whole[:, self.column.clamp(min=0)], 0.0)

    def add(self, logits: Tensor, h2: Tensor, word_scores: Tensor) -> Tensor:
        """Logits (..., V) of states h2 (..., H), with the word scores (..., V) of their images."""
        return torch.addcmul(logits, self.gate(h2).sigmoid(), word_scores)


def log_softmax(logits: Tensor) -> Tensor:
    """In float32 at least."""
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
