"""The steps of Up-Down without autograd, and their gradient by hand: the attention LSTM, attention, the language LSTM.

For one row, in the letters of `models/updown.py`, with the two parts of a gate's input that are known before (`base`):

    h1_t = LSTM_1(W_1 [h2_{t-1}; h1_{t-1}] + base_t)
    z_i  = 2 wᵀ σ(2 W_v v_i + 2 W_q h1_t),   β = softmax(z),   v̂ = Σ β_i v_i
    h2_t = LSTM_2(W_2 [v̂; h1_t; h2_{t-1}] + b_2)

z is wᵀ tanh(W_v v_i + W_q h1) and a number that is the same for all regions, which vanishes in the softmax:
tanh x = 2 σ(2x) − 1. PyTorch computes σ several times faster than tanh.

A step reads the weights in blocks (`Product`), keeps what its gradient needs, and no graph is made. Going back, what
does not depend on the step before is put off: each weight, and the regions, have their gradient in one product. The
words of captions may be known (teacher forcing) or drawn on the way: captions that were drawn have their gradient
without being scored a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from groundling.models.layers import first, masked_softmax
from groundling.models.products import Product
from groundling.tensors import EncodedImage


class Cells(NamedTuple):
    """Hidden and cell states of both LSTMs, each (N, H)."""

    h1: Tensor
    c1: Tensor
    h2: Tensor
    c2: Tensor


class Weights(NamedTuple):
    attention: Tensor  # W_1 (4H, 2H), of [h2; h1]
    language: Tensor  # W_2 (4H, 3H), of [v̂; h1; h2]
    bias: Tensor  # b_2 (4H,)
    query: Tensor  # W_q (A, H)
    weigh: Tensor  # w (1, A)


class Cell(NamedTuple):
    """An LSTM at one step."""

    gates: Tensor  # (n, 4H): i, f, g, o
    before: Tensor  # (n, H): its cell at the step before
    tanh: Tensor  # (n, H): of its cell now


@dataclass(frozen=True)
class Step:
    """What the gradient of a step needs, for the n captions that have this word."""

    parent: Tensor | None  # (n,) the row of the step before that each goes on from; None: the same rows
    here: EncodedImage  # the image of each
    before: Tensor  # (n, 2H): [h2; h1]
    first: Cell
    mixed: Tensor  # (n, R, A): the sigmoids
    attn: Tensor  # (n, R): β
    seen: Tensor  # (n, 3H): [v̂; h1; h2]
    second: Cell
    h2: Tensor  # (n, H)

    def only(self, count: int) -> Step:
        """The first so many rows."""
        if count == len(self.h2):
            return self
        return replace(
            self,
            parent=None if self.parent is None else self.parent[:count],
            here=self.here[torch.arange(count)],
            first=Cell(*(x[:count] for x in self.first)),
            second=Cell(*(x[:count] for x in self.second)),
            **{name: getattr(self, name)[:count] for name in ("before", "mixed", "attn", "seen", "h2")},
        )


class Recurrence:
    """Makes steps and, if it is to `record`, keeps them for the gradient. Call it where gradients are off."""

    def __init__(self, weights: Weights, encoded: EncodedImage, coupled: bool = True, record: bool = False) -> None:
        """`coupled = False`: h2 is 0 in the attention LSTM."""
        self.encoded = replace(encoded, memory=encoded.memory.detach(), keys=2 * encoded.keys.detach())
        self.coupled, self.record = coupled, record
        self.steps: list[Step] = []
        self._bias, self._weigh = weights.bias.detach(), 2 * weights.weigh.detach()[0]
        self._attention, self._language = Product(weights.attention), Product(weights.language)
        self._query = Product(2 * weights.query.detach())

    def __call__(self, base: Tensor, row: Tensor, cells: Cells, parent: Tensor | None = None) -> tuple[Cells, Tensor]:
        """One step of n captions of the images `row` (n,), base (n, 4H): their states after it, and β (n, R).

        `cells` are those of the rows `parent` (n,) of the step before; None: of the same rows.
        """
        here = replace(self.encoded, row=row)
        before = torch.cat([cells.h2 if self.coupled else torch.zeros_like(cells.h2), cells.h1], 1)
        h1, c1, one = _cell(self._attention(before).add_(base), cells.c1)
        mixed = here.keys.index_select(0, row).add_(self._query(h1)[:, None]).sigmoid_()
        z = (mixed.flatten(0, 1) @ self._weigh).view(mixed.shape[:2])
        attn = masked_softmax(z, here.valid[row])
        folded = here.fold(attn)
        seen = torch.cat([here.unfold(folded @ first(here.memory, len(folded))), h1, cells.h2], 1)
        h2, c2, two = _cell(self._language(seen, self._bias), cells.c2)
        if self.record:
            self.steps.append(Step(parent, here, before, one, mixed, attn, seen, two, h2))
        return Cells(h1, c1, h2, c2), attn

    def recorded(self, weights: Weights, base: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        """h2 (M, H) and β (M, R) of all steps, one below the other, with gradients by `base` (M, 4H) and the others."""
        hidden, attn = _Recorded.apply(self, base, encoded.keys, encoded.memory, *weights)  # type: ignore[no-untyped-call]
        return hidden, attn

    def keep(self, counts: Sequence[int]) -> None:
        """Forget all but the first so many rows of each step: the others need no gradient."""
        self.steps = [step.only(count) for step, count in zip(self.steps, counts, strict=False)]

    def gradient(self, weights: Weights, of_h2: Tensor, of_attn: Tensor) -> tuple[Tensor, ...]:
        """By base, keys, memory and the weights, from those by h2 (M, H) and β (M, R) of all steps."""
        sizes, h = [len(step.h2) for step in self.steps], of_h2.shape[1]
        keys, weigh = torch.zeros_like(self.encoded.keys), torch.zeros_like(weights.weigh[0])
        later = of_h2.new_zeros(sizes[-1], 4 * h)  # of h1, c1, h2, c2 after this step, from the steps after it
        back: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        every = zip(self.steps, *(torch.split_with_sizes(x, sizes) for x in (of_h2, of_attn)), strict=True)
        for t, (step, h2, attn) in reversed([*enumerate(every)]):
            h1, c1, more, c2 = later.chunk(4, 1)
            two, c2 = _cell_gradient(step.second, h2 + more, c2)
            language = weights.language if t else weights.language[:, : 2 * h]  # before the first step all is 0
            v, of_h1, *last = (two @ language).chunk(3 if t else 2, 1)
            z = _softmax_gradient(step, v, attn)
            query = self._mixed_gradient(step, z, keys, weigh).mul_(2 * self._weigh)
            one, c1 = _cell_gradient(step.first, h1 + of_h1 + query @ weights.query, c1)
            back.append((one, two, query, v))
            if t:
                h2, h1 = (one @ weights.attention).chunk(2, 1)
                h2 = last[0] + h2 if self.coupled else last[0]
                later = torch.cat([h1, c1, h2, c2], 1)
                if step.parent is not None:
                    later = later.new_zeros(sizes[t - 1], 4 * h).index_add_(0, step.parent, later)
        one, two, query, v = (torch.cat(x[::-1]) for x in zip(*back, strict=True))
        seen, begin = torch.cat([step.seen for step in self.steps]), sizes[0]
        before = torch.cat([step.before for step in self.steps[1:]]) if self.steps[1:] else seen[:0, : 2 * h]
        images = replace(self.encoded, row=torch.cat([step.here.row for step in self.steps]))
        folded = images.fold(torch.cat([step.attn for step in self.steps]))
        memory = torch.zeros_like(self.encoded.memory)
        torch.bmm(folded.transpose(1, 2), images.fold(v), out=memory[: len(folded)])
        return (
            one,
            keys.mul_(2 * self._weigh),
            memory,
            one[begin:].t() @ before,
            two.t() @ seen,
            two.sum(0),
            query.t() @ seen[:, h : 2 * h],
            2 * weigh[None],
        )

    @staticmethod
    def _mixed_gradient(step: Step, z: Tensor, keys: Tensor, weigh: Tensor) -> Tensor:
        """Σ_i ∂z_i σ'_i (n, A), from ∂z (n, R); the same by image and region is added to `keys`, Σ ∂z σ to `weigh`."""
        weigh += torch.mv(step.mixed.flatten(0, 1).t(), z.flatten())
        slopes = torch.addcmul(step.mixed, step.mixed, step.mixed, value=-1).mul_(z[..., None])
        keys.index_add_(0, step.here.row, slopes)
        return slopes.sum(1)


class _Recorded(Function):
    @staticmethod
    def forward(
        ctx: Any, run: Recurrence, base: Tensor, keys: Tensor, memory: Tensor, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.run = run
        ctx.save_for_backward(*weights)
        return torch.cat([step.h2 for step in run.steps]), torch.cat([step.attn for step in run.steps])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_h2: Tensor, of_attn: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.run.gradient(Weights(*ctx.saved_tensors), of_h2, of_attn)


def _cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Cell]:
    """As `updown.cell`, with gates (N, 4H) that are overwritten: h, c and what the gradient needs."""
    size = c.shape[1]
    gates[:, : 2 * size].sigmoid_()
    gates[:, 2 * size : 3 * size].tanh_()
    gates[:, 3 * size :].sigmoid_()
    i, f, g, o = gates.chunk(4, 1)
    now = torch.addcmul(f * c, i, g)
    tanh = now.tanh()
    return o * tanh, now, Cell(gates, c, tanh)


def _cell_gradient(at: Cell, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """By the gates (N, 4H) before their functions, and by the cell before, from those by h and c (N, H)."""
    i, f, g, o = at.gates.chunk(4, 1)
    c = torch.addcmul(c, h * o, 1 - at.tanh * at.tanh)
    slopes = torch.addcmul(at.gates, at.gates, at.gates, value=-1)  # σ' = σ − σ²
    slopes.chunk(4, 1)[2].copy_(1 - g * g)  # tanh' = 1 − tanh²
    return torch.cat([c * g, c * at.before, c * i, h * at.tanh], 1).mul_(slopes), c * f


def _softmax_gradient(step: Step, v: Tensor, attn: Tensor) -> Tensor:
    """By z (n, R), from those by v̂ (n, H) and by β (n, R)."""
    folded = step.here.fold(v)
    of_attn = attn + step.here.unfold(folded @ first(step.here.memory, len(folded)).transpose(1, 2))
    shared = step.attn * of_attn
    return torch.addcmul(shared, step.attn, shared.sum(1, keepdim=True), value=-1)
