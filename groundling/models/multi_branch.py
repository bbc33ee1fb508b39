"""Distributed attention: K attentions take turns, each without the regions that those before it chose; then they vote.

Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021. With h1 of the one attention LSTM,

    a^k_t  = Attention_k(R^k, h1_t),   R^k = {r in R, r not in M^{k-1}}                     (7)
    f^k_t  = Σ_i a^k_{i,t} r_i + att(grid)                                                  (3, 4)
    h2^k_t = LSTM_2([f^k_t; h1_t], h2^k_{t-1}),   p_k(y_t | y_{<t}) = softmax(W_o h2^k_t)   (5)

The attentions have weights of their own; LSTM_2 and W_o are shared, and every branch has its own state. M^{k-1} are the
regions with the greatest weight of the branches before k: one each, in a video one of each frame, since a word has a
box in every frame. LSTM_1 gets the image and the word (eq. 1); if `coupled` also the mean of the branches' h2, as
Up-Down gets its own. Not in the paper: a branch for which no region is left, because there are fewer regions
than branches, begins anew with all of them.

**How the branches vote.** Each votes for its likeliest word (not PAD, BOS or UNK);
the word with the most votes wins, of equals the one that is likelier on average. For sampling, beam search and policy
gradients a word needs a probability. It is the mixture's

    p(y) = 1/K Σ_k p_k(y)

with one correction: where the winner is not the mixture's likeliest word, the two change places. So p sums to 1, is
differentiable, its likeliest word is the vote (greedy decoding is the paper's), and it is the mixture wherever the two
agree. `step` and teacher forcing give the same p; beam search adds up its logarithms, a beam carrying the states of all
K branches. A word's regions are those that the branches which would say it chose (`Glimpse.picks`); a word of a beam or
sample that no branch voted for has the region with the greatest mean weight. With `mask_special` each p_k is
without PAD, BOS and UNK, before they are mixed. With one branch, `coupled`, all of this is Up-Down, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from groundling.models.layers import Additive, log_softmax, masked_softmax
from groundling.models.packed import Packing, Unrolled
from groundling.models.recurrence import Cells
from groundling.models.updown import Gates, State, TwoLayerLSTM, attention_lstm, initial_state, language_lstm
from groundling.tensors import Decoding, EncodedImage, Glimpse, without_special
from groundling.types import EOS, PAD, UNK


class MultiBranch(TwoLayerLSTM):
    """Up-Down whose attention is the first branch, and `others` after it: the weights of an Up-Down fit.

    `open` sets how many branches are in use; it is saved with the weights, so that a model that has learned with one
    branch so far also decodes with one. `eliminate = False`: every branch sees all regions.
    In `Cells`, h1 and c1 are (N, H), h2 and c2 (N, K, H).
    """

    attend: Additive
    used: Tensor

    def __init__(
        self,
        vocab_size: int,
        encoder: nn.Module,
        attends: Sequence[Additive],
        hidden: int = 512,
        embed: int = 512,
        dropout: float = 0.5,
        attend_grid: Additive | None = None,
        *,
        eliminate: bool = True,
        coupled: bool = True,
        word_columns: Sequence[int] | None = None,
    ) -> None:
        sizes = (hidden, embed, dropout)
        more = (attends[0], *sizes, attend_grid)
        super().__init__(vocab_size, encoder, *more, coupled=coupled, word_columns=word_columns)
        self.others = nn.ModuleList(attends[1:])
        self.eliminate = eliminate
        self.register_buffer("used", torch.tensor(len(attends)))

    def open(self, branches: int) -> None:
        """Use the first so many branches from now on."""
        if not 1 <= branches <= 1 + len(self.others):
            raise ValueError(f"this captioner has {1 + len(self.others)} branches, not {branches}")
        self.used.fill_(branches)

    def branches(self, count: int) -> list[Additive]:
        return [self.attend, *self.others][:count]

    # ---------------------------------------------------------------- one word at a time

    def keys(self, memory: Tensor) -> Tensor:
        """(B, R, H) -> (B, K, R, A), of the branches in use."""
        used = max(1, int(self.used))  # a file may say anything
        return torch.stack([attend.keys(memory) for attend in self.branches(used)], 1)

    def start(self, encoded: EncodedImage) -> State:
        still = self.whole_gates(encoded.whole)[encoded.row]
        return _initial_state(still, encoded.keys.shape[1]), still

    def step(
        self, token: Tensor, encoded: EncodedImage, state: State, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, State]:
        cells, still = state
        word = self.embed_word(token) + still
        cells = _attention_lstm(cells, lambda x: word + self.attention_gates(x), self.coupled)
        context, weights = self.attend_regions(cells.h1, encoded)
        cells = _language_lstm(cells, context, self.language_gates)
        logits = self.word_logits(self.dropout(cells.h2), encoded, encoded.row, mask_special)
        logp, words = majority_vote(log_softmax(logits))
        return logp, Glimpse(weights.mean(1), weights, words), (cells, still)

    def attend_regions(self, query: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        """Eq. 7, 3 and 4 of all branches at once: context (N, K, H), weights (N, K, R)."""
        n, k, r = len(encoded), *encoded.keys.shape[1:3]
        attends = self.branches(k)
        q = encoded.fold(F.linear(query, torch.cat([attend.of_query.weight for attend in attends])))  # (b, g, K A)
        b, g = q.shape[:2]
        # The gradient of a slice is a copy, even of a slice of everything.
        here = (encoded.keys, encoded.memory, encoded.valid, encoded.frame)
        keys, memory, valid, frame = (x if len(x) == b else x[:b] for x in here)
        mixed = (keys[:, None] + q.view(b, g, k, 1, -1)).tanh_()  # (b, g, K, R, A): nothing else is as large
        weigh = torch.cat([attend.weigh.weight for attend in attends])  # (K, A)
        z = F.linear(mixed, weigh).diagonal(dim1=2, dim2=4).transpose(2, 3)  # (b, g, K, R); all pairs cost no more
        seen = valid[:, None, None].expand_as(z)
        if self.eliminate and k > 1:
            seen = remaining_regions(z.detach(), seen[:, :, 0], frame[:, None].expand(b, g, r))
        weights = masked_softmax(z, seen)
        context = weights.to(memory.dtype).flatten(1, 2) @ memory  # (b, g K, H)
        context = encoded.unfold(context.view(b, g, -1)).view(n, k, -1)
        if self.attend_grid is not None:
            context = context + self.attend_grid(query, encoded.of_grid())[0][:, None]
        return context, encoded.unfold(weights.flatten(2)).view(n, k, r)

    # ---------------------------------------------------------------- teacher forcing

    def forward(self, encoded: EncodedImage, inputs: Tensor, targets: Tensor, mask_special: bool = False) -> Decoding:
        """Score `targets` (N, T), saying `inputs` (N, T) before them; the decoding's `branches` are those of each."""
        k = encoded.keys.shape[1]
        packing = Packing.of(targets != PAD, encoded.row, len(encoded.memory))
        encoded = encoded.only(packing.images)
        images = encoded.row[torch.cat(packing.rows)]  # (M,)
        base = self.whole_gates(encoded.whole)[images]  # (M, 4H)
        attention = Unrolled(self.attention_gates.weight, base + self.embed_word(packing.pack(inputs)), packing.counts)
        bias = self.language_gates.bias.expand(k * len(base), -1)
        language = Unrolled(self.language_gates.weight, bias, [k * count for count in packing.counts])
        cells = _initial_state(base[: len(packing.rows[0])], k)
        hidden, attns = [], []
        for rows, stays in zip(packing.rows, packing.stays, strict=True):
            if len(stays) < len(cells.h1):
                cells = Cells(*(x[stays] for x in cells))
            cells = _attention_lstm(cells, attention, self.coupled)
            context, weights = self.attend_regions(cells.h1, encoded[rows])
            cells = _language_lstm(cells, context, language)
            hidden.append(cells.h2)
            attns.append(weights)
        logits = self.word_logits(self.dropout(torch.cat(hidden)), encoded, images, mask_special)  # (M, K, V)
        return _decoding(packing, targets, logits, torch.cat(attns))


def _decoding(packing: Packing, targets: Tensor, logits: Tensor, attn: Tensor) -> Decoding:
    own, logp, guesses, guess = vote_on_target(logits, packing.pack(targets))

    def unpack(logp: Tensor, attn: Tensor, guess: Tensor, branches: tuple[Decoding, ...] = ()) -> Decoding:
        logp, attn, guess = (packing.unpack(x) for x in (logp, attn, guess))
        return Decoding(targets, logp, attn, guess, branches=branches)

    branches = tuple(unpack(*branch) for branch in zip(own.unbind(1), attn.unbind(1), guesses.unbind(1), strict=True))
    return unpack(logp, attn.mean(1), guess, branches)


def _initial_state(gates: Tensor, k: int) -> Cells:
    cells = initial_state(gates)
    many = cells.h2[:, None].expand(-1, k, -1)
    return cells._replace(h2=many, c2=many)


def _attention_lstm(cells: Cells, gates: Gates, coupled: bool) -> Cells:
    updated = attention_lstm(cells._replace(h2=cells.h2.mean(1)), gates, coupled)
    return cells._replace(h1=updated.h1, c1=updated.c1)


def _language_lstm(cells: Cells, context: Tensor, gates: Gates) -> Cells:
    """LSTM_2 of all branches in one product, row n of branch k being row n K + k."""
    n, k = context.shape[:2]
    h1 = cells.h1[:, None].expand(-1, k, -1)
    flat = Cells(*(x.flatten(0, 1) for x in (h1, h1, cells.h2, cells.c2)))
    updated = language_lstm(flat, context.flatten(0, 1), gates)
    return cells._replace(h2=updated.h2.view(n, k, -1), c2=updated.c2.view(n, k, -1))


# ---------------------------------------------------------------- elimination


def remaining_regions(z: Tensor, valid: Tensor, frame: Tensor) -> Tensor:
    """R^k of eq. 7 as (..., K, R) bool, from scores z (..., K, R); `valid` and `frame` are (..., R)."""
    left, turns = valid, []
    for score in z.unbind(-2):
        left = torch.where(left.any(-1, keepdim=True), left, valid)  # fewer regions than branches: all of them again
        turns.append(left)
        left = left & ~_heaviest(score.masked_fill(~left, -math.inf), frame)
    return torch.stack(turns, -2)


def _heaviest(z: Tensor, frame: Tensor) -> Tensor:
    """(..., R) -> (..., R) bool, the first region with the greatest score of each frame."""
    r = z.shape[-1]
    if not frame.any():
        return F.one_hot(z.max(-1).indices, r).bool() if r else torch.zeros_like(z, dtype=torch.bool)
    empty = (*z.shape[:-1], int(frame.max()) + 1)
    best = z.new_full(empty, -math.inf).scatter_reduce(-1, frame, z, "amax")
    position = torch.arange(r, device=z.device).expand_as(z).masked_fill(z < best.gather(-1, frame), r)
    first = position.new_full(empty, r).scatter_reduce(-1, frame, position, "amin")
    return position == first.gather(-1, frame)


# ---------------------------------------------------------------- voting


def majority_vote(logp: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of K branches (N, K, V) -> those of what they say together (N, V), the words they vote for."""
    mixture = logp.logsumexp(1) - math.log(logp.shape[1])
    with torch.no_grad():
        words = without_special(logp).max(2).indices  # (N, K)
        winner, likeliest = _vote(words, without_special(mixture).exp_())
        moved = (winner != likeliest).nonzero().squeeze(1)
    if len(moved):
        rows, here, there = moved.repeat(2), (winner[moved], likeliest[moved]), (likeliest[moved], winner[moved])
        mixture = mixture.index_put((rows, torch.cat(here)), mixture[rows, torch.cat(there)])
    return mixture, words


def _vote(words: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Votes (N, K), the mixture (N, V), 0 for special tokens -> the winner and the mixture's likeliest word, (N,)."""
    votes = (words[:, :, None] == words[:, None]).sum(2)
    ahead = votes + 0.5 * p.gather(1, words)  # of equally many votes, the likelier word
    winner = words.gather(1, ahead.max(1, keepdim=True).indices).squeeze(1)
    return winner, p.max(1).indices


def vote_on_target(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `majority_vote` gives to `target` (M,), from logits (M, K, V), without log-probabilities of all words.

    Returns each branch's log p_k(target) (M, K), log p(target) (M,), each branch's likeliest word, that of p.
    """
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    own, logp, guesses, guess = _VoteOnTarget.apply(exact, target)  # type: ignore[no-untyped-call]
    return own, logp, guesses, guess


class _VoteOnTarget(Function):
    """Makes two (M, K, V) arrays, one in each direction."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        m, k, _ = logits.shape
        top, guesses = logits.max(2, keepdim=True)
        p = torch.sub(logits, top).exp_()
        total = p.sum(2, keepdim=True)
        guesses = guesses.squeeze(2)
        words, odd = guesses, (guesses <= UNK) & (guesses != EOS)
        if odd.any():
            words = words.masked_scatter(odd, without_special(logits[odd]).max(1).indices)
        mixture = torch.zeros_like(p[:, 0])  # K p(y); no matrix product, which may be less exact on a GPU
        for branch, sums in zip(p.unbind(1), total.unbind(1), strict=True):
            mixture.addcdiv_(branch, sums)
        guess = mixture.max(1).indices
        winner, likeliest = _vote(words, without_special(mixture, 0.0) / k)
        # The target as the mixture sees it: the winner and the likeliest word change places.
        seen = torch.where(target == winner, likeliest, torch.where(target == likeliest, winner, target))
        own, theirs = (
            (logits.gather(2, y[:, None, None].expand(m, k, 1)) - top - total.log()).squeeze(2) for y in (target, seen)
        )
        ctx.save_for_backward(p, total, target, seen, theirs.softmax(1))
        guess = torch.where(guess == likeliest, winner, guess)
        ctx.mark_non_differentiable(guesses, guess)
        return own, theirs.logsumexp(1) - math.log(k), guesses, guess

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_own: Tensor, of_logp: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        """∂log p_k(y)/∂logits_k = 1[y] − p_k;  ∂log p(y)/∂log p_k(y) = p_k(y) / Σ_k p_k(y)."""
        p, total, target, seen, share = ctx.saved_tensors
        of_theirs = share * of_logp[:, None]
        out = p * (-(of_own + of_theirs)[..., None] / total)
        for y, grad in ((target, of_own), (seen, of_theirs)):
            out.scatter_add_(2, y[:, None, None].expand_as(total), grad[..., None])
        return out, None
