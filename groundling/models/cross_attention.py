"""Stacked cross attention, text to image (Lee et al., ECCV 2018), in the letters of Zhou et al. 2020.

    s_it = v_iᵀ e_t                                        (4)  region i, word t, both of unit length
    s̄_it = [s_it]₊ / √(Σ_t [s_it]₊²)
    α_it = exp(τ s̄_it) / Σ_i exp(τ s̄_it)                   (5)  attention of word t
    R_t  = e_tᵀ a_t / ‖a_t‖,   a_t = Σ_i α_it v_i               how well it is found there
    S    = (1/n) Σ_t R_t                                   (6)

`counts` tells the words over which S is the mean: all of a caption, or its nouns (8). Rows of e that are no words, and
rows of v that are no regions, are zero and then change nothing. A caption of which no word counts has S = 0.

One formulation is for given pairs of image and caption, one for all pairs. The latter never makes an a_t: the cosine
does not see the length of α, so that A = exp(τ s̄) will do, and

    e_tᵀ a_t = Σ_i A_it s_it,   ‖a_t‖² = A_tᵀ G A_t,   G = v vᵀ

cost R numbers for each pair of image and word instead of H.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TINY = 1e-12  # what lengths are at least, before they divide
STEEPEST = 30.0  # largest τ: exp(2τ) R² is still a number in float32
WORDS, NUMBERS = 768, 1 << 18  # of all pairs: words and similarities made at once, so many as a core's cache holds
PAIRS = 32  # of given pairs: made at once


def attention(v: Tensor, e: Tensor, valid: Tensor, tau: float) -> Tensor:
    """α of eq. 5: (P, R, H), (P, T, H), (P, R) -> (P, T, R); exactly 0 where not valid, and everywhere if none is."""
    z = _sharpened(v @ e.mT, tau).mT
    return z.masked_fill(~valid[:, None], torch.finfo(z.dtype).min).softmax(-1) * valid[:, None]


def score(v: Tensor, e: Tensor, counts: Tensor, tau: float) -> Tensor:
    """S of P pairs: (P, R, H), (P, T, H), (P, T) bool -> (P,); e_tᵀ a_t is Σ_i α_it s_it."""
    s = v @ e.mT
    alpha = _sharpened(s, tau).softmax(1)  # (P, R, T); what is no region has weight, but adds 0 to what follows
    length = torch.linalg.vector_norm(alpha.mT @ v, dim=-1).clamp(min=TINY)  # ‖a_t‖, (P, T)
    scores: Tensor = ((alpha * s).sum(1) / length * shares(counts, s.dtype)).sum(1)
    return scores


def score_pairs(v: Tensor, e: Tensor, counts: Tensor, tau: float, image: Tensor, caption: Tensor) -> Tensor:
    """S of the pairs (image_p, caption_p): (B, R, H), (N, T, H), (N, T) bool, (P,), (P,) -> (P,).

    Differentiable in v and e, at the price of a second forward pass: a few pairs at a time are made anew in the
    backward pass, those only that have a gradient, so that memory does not grow with P.
    """
    scores: Tensor = _Pairs.apply(v, e, counts, tau, image, caption)  # type: ignore[no-untyped-call]
    return scores


class _Pairs(Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, e: Tensor, counts: Tensor, tau: float, image: Tensor, caption: Tensor) -> Tensor:
        ctx.save_for_backward(v, e, counts, image, caption)
        ctx.tau = tau
        blocks = zip(torch.split(image, PAIRS), torch.split(caption, PAIRS), strict=True)
        return torch.cat([v.new_zeros(0), *(score(v[i], e[c], counts[c], tau) for i, c in blocks)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        v, e, counts, image, caption = ctx.saved_tensors
        of_v, of_e = torch.zeros_like(v), torch.zeros_like(e)
        for p in torch.split(grad.nonzero().squeeze(1), PAIRS):
            i, c = image[p], caption[p]
            regions, words = v[i].requires_grad_(), e[c].requires_grad_()
            with torch.enable_grad():
                scores = score(regions, words, counts[c], ctx.tau)
            towards = torch.autograd.grad(scores, (regions, words), grad[p])
            of_v.index_add_(0, i, towards[0])
            of_e.index_add_(0, c, towards[1])
        return of_v, of_e, None, None, None, None


@torch.no_grad()
def score_all(v: Tensor, e: Tensor, counts: Tensor, tau: float) -> Tensor:
    """S of all pairs: (B, R, H), (N, T, H), (N, T) bool -> (B, N), in blocks of captions of about the same length."""
    scores = v.new_zeros(len(v), len(e))
    gram = v @ v.mT
    e, counts = compact(e, counts)
    lengths = e.any(-1).sum(1)
    weights = shares(counts, v.dtype)
    images = max(1, NUMBERS // (WORDS * max(1, v.shape[1])))
    for rows, longest in _alike(lengths):
        words = e[rows, :longest].transpose(0, 1).contiguous()  # (T, n, H): a sum over T is then one over whole rows
        share = weights[rows, :longest].T  # (T, n)
        for start in range(0, len(v), images):
            here = slice(start, start + images)
            scores[here, rows] = _block(v[here], gram[here], words, share, tau)
    return scores


def _block(v: Tensor, gram: Tensor, words: Tensor, share: Tensor, tau: float) -> Tensor:
    """(b, R, H), (b, R, R), (T, n, H), (T, n) -> (b, n). Works in place: passes over memory are what it costs."""
    (b, r, _), (t, n) = v.shape, share.shape
    s = (v.flatten(0, 1) @ words.flatten(0, 1).T).view(b, r, t * n)
    a = s.clamp(min=0)
    by_caption = a.view(b, r, t, n)
    squares = (by_caption * by_caption).sum(2, keepdim=True)  # a norm over this axis takes twenty times as long
    by_caption.mul_(squares.clamp_(min=TINY**2).rsqrt_().mul_(tau))
    a.exp_()
    length = torch.bmm(gram, a).mul_(a).sum(1).clamp_(min=TINY).sqrt_()  # ‖a_t‖, (b, T n)
    return (s.mul_(a).sum(1).div_(length).view(b, t, n) * share).sum(1)


def _alike(lengths: Tensor) -> list[tuple[Tensor, int]]:
    """Captions, by length, in groups of about WORDS words, and the longest of each group; empty ones are left out."""
    order = lengths.argsort(descending=True, stable=True)
    order = order[: int((lengths > 0).sum())]
    groups = []
    while len(order):
        longest = int(lengths[order[0]])
        n = max(1, WORDS // longest)
        groups.append((order[:n], longest))
        order = order[n:]
    return groups


def compact(e: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The same without columns that are zero in all captions: in each caption words come first, in order."""
    nonzero = e.any(-1)
    most = int(nonzero.sum(1).max()) if len(nonzero) else 0
    order = nonzero.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
    return e.gather(1, order[..., None].expand(-1, -1, e.shape[2])), counts.gather(1, order)


def _sharpened(s: Tensor, tau: float) -> Tensor:
    """τ s̄: (P, R, T) -> (P, R, T)."""
    return tau * F.normalize(s.relu(), dim=-1, eps=TINY)


def shares(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """1/n for each of the n words that count: (N, T) bool -> (N, T), 0 where nothing counts."""
    return counts.to(dtype) / counts.sum(1, keepdim=True).clamp(min=1)
