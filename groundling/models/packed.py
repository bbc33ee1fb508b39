"""Teacher forcing without waste: no padded positions, weight gradients in one product, few large temporaries.

Captions of natural length are packed step by step: all first words, then the second words of the captions that have
one, and so on. M = Σ lengths is the number of packed positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Packing:
    """Which of N captions have a t-th word. Captions of one image stay together; the longest come first."""

    n: int
    t: int
    images: Tensor  # (B,) the order of the images, by their longest caption
    rows: tuple[Tensor, ...]  # t tensors (n_t,), the captions with a t-th word
    stays: tuple[Tensor, ...]  # t tensors (n_t,), where they were among the rows of the step before

    @staticmethod
    def of(real: Tensor, image_of: Tensor, images: int) -> Packing:
        """`real` (N, T) is True then False in each row."""
        if not real.any():
            raise ValueError("there is no word to score: all targets are padding")
        lengths = real.sum(1)
        longest = lengths.new_zeros(images).scatter_reduce(0, image_of, lengths, "amax")
        order = longest.argsort(descending=True, stable=True)
        position = torch.empty_like(order)
        position[order] = torch.arange(images, device=order.device)
        rows = lengths.argsort(descending=True, stable=True)
        rows = rows[position[image_of[rows]].argsort(stable=True)]
        every, stays = [], []
        for t in range(int(lengths.max())):
            stays.append((lengths[rows] > t).nonzero().squeeze(1))
            rows = rows[stays[-1]]
            every.append(rows)
        return Packing(len(real), real.shape[1], order, tuple(every), tuple(stays))

    @property
    def counts(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    @property
    def where(self) -> Tensor:
        """(M,) positions in a flattened (N, T)."""
        return torch.cat([rows * self.t + t for t, rows in enumerate(self.rows)])

    def pack(self, x: Tensor) -> Tensor:
        """(N, T) -> (M,)."""
        return x.flatten()[self.where]

    def unpack(self, x: Tensor) -> Tensor:
        """(M, ...) -> (N, T, ...), 0 where there is no word."""
        empty = x.new_zeros(self.n * self.t, *x.shape[1:])
        return empty.index_copy(0, self.where, x).view(self.n, self.t, *x.shape[1:])


class Unrolled:
    """A linear layer at every step of a loop: W x_t + base_t.

    The gradient of W is Σ_t g_tᵀ x_t. Autograd would make and add one matrix per step; here it is one product for all.
    """

    def __init__(self, weight: Tensor, base: Tensor, counts: list[int]) -> None:
        self.weight = weight.detach()
        self.inputs: list[Tensor] = []
        self.bases = _WeightAtTheEnd.apply(base, weight, self.inputs).split(counts)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        base = self.bases[len(self.inputs)]
        self.inputs.append(x.detach())
        return torch.addmm(base, x, self.weight.t())


class _WeightAtTheEnd(Function):
    """The identity on `base`, whose gradient g (M, out) has met all steps' inputs when it arrives: dW = gᵀ x."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x = torch.cat(ctx.inputs).to(grad.dtype)
        return grad, grad.t() @ x if ctx.needs_input_grad[1] else None, None


def log_likelihood(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """log softmax(logits)[target], in float32 at least, and the likeliest word: (M, V), (M,) -> (M,), (M,)."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logp, guess = _LogLikelihood.apply(exact, target)  # type: ignore[no-untyped-call]
    return logp, guess


class _LogLikelihood(Function):
    """Makes two (M, V) arrays, one in each direction, where log-softmax and gathering make four."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        top, guess = logits.max(1, keepdim=True)
        p = torch.sub(logits, top).exp_()
        total = p.sum(1, keepdim=True)
        logp = logits.gather(1, target[:, None]) - top - total.log()
        ctx.save_for_backward(p, total, target)
        ctx.mark_non_differentiable(guess)
        return logp.squeeze(1), guess.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        """∂logp/∂logits = 1[target] − p."""
        p, total, target = ctx.saved_tensors
        out = p * (-grad[:, None] / total)
        out.scatter_add_(1, target[:, None], grad[:, None])
        return out, None


def log_likelihood_of_drawn(
    hidden: Tensor, weight: Tensor, bias: Tensor, logp: Tensor, position: Tensor, target: Tensor
) -> Tensor:
    """log p of words `target` (K,) at `position` (K,), from log-probabilities that are known: (K,), with gradients.

    logp (M, V) = log softmax(W h + b) was made without gradients when the words were drawn, h being `hidden` (M, H).
    """
    found: Tensor = _Drawn.apply(hidden, weight, bias, logp, position, target)  # type: ignore[no-untyped-call]
    return found


class _Drawn(Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, logp: Tensor, position: Tensor, target: Tensor
    ) -> Tensor:
        ctx.save_for_backward(hidden, weight, logp, position, target)
        return logp[position, target]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂logp/∂logits = 1[target] − p, summed over the words at one position."""
        hidden, weight, logp, position, target = ctx.saved_tensors
        total = grad.new_zeros(len(logp)).index_add_(0, position, grad)
        logits = logp.exp().mul_(-total[:, None])
        logits.index_put_((position, target), grad, accumulate=True)
        return logits @ weight, logits.t() @ hidden, logits.sum(0), None, None, None
