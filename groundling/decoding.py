"""Captions out of a captioner: greedy, sampled, beam. Written on `start` and `step` alone.

`inference.settings` has the same as settings, which users give.

Every word keeps the attention with which it was chosen. PAD, BOS and UNK are never chosen. A caption has at most
`length` tokens, EOS included; one that reaches the limit stops there without EOS. `logp` is the captioner's own
log-probability, whatever the choice among words was restricted to, so that teacher forcing of a caption gives the same
numbers.

`bias` (N, V) or None: added to the log-probabilities of every step when words are compared, and to nothing else. Its
numbers are 0 or less: log-evidence of nouns, times a weight.
`Constraints` are what is known of words beside the captioner: settings make `bias`, `once` and `conjunction` of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from groundling.tensors import Captioner, Decoding, EncodedImage, Glimpse, SteppingCaptioner, without_special
from groundling.types import BOS, EOS, PAD


@dataclass(frozen=True)
class Constraints:
    """What is known of the words of a vocabulary beside the captioner, for V words and N rows."""

    once: Tensor | None = None  # (V,) bool: words that a caption may be asked to have once
    log_evidence: Tensor | None = None  # (N, V), of each word in the image of a row; 0 where nothing is known
    conjunction: int = PAD  # the id of "and"; PAD: none


UNCONSTRAINED = Constraints()

# ---------------------------------------------------------------- one caption per row


def greedy(captioner: Captioner, encoded: EncodedImage, length: int, bias: Tensor | None = None) -> Decoding:
    """The likeliest word at every step; dropout off, no gradient."""
    with _generating(captioner, encoded) as (stepper, rows):
        return _decode(stepper, rows, length, lambda logp, likeliest: likeliest, bias)


def sample(
    captioner: Captioner,
    encoded: EncodedImage,
    length: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    bias: Tensor | None = None,
) -> Decoding:
    """Words drawn from p^(1/temperature), among the `top_k` likeliest and the smallest set of probability >= `top_p`.

    The captioner stays in its mode (training with dropout, or eval); `logp` is differentiable where gradients are on.
    To learn from long captions, drawing without gradients and scoring them by teacher forcing is faster.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, got {temperature}; use greedy for the likeliest words")

    def draw(logp: Tensor, likeliest: Tensor) -> Tensor:
        return _draw(_keep_likeliest(logp / temperature, top_k, top_p).softmax(1), generator)

    return _decode(captioner, encoded, length, draw, bias)


def _decode(
    captioner: Captioner,
    encoded: EncodedImage,
    length: int,
    choose: Callable[[Tensor, Tensor], Tensor],
    bias: Tensor | None,
) -> Decoding:
    """One caption per row; `choose` takes log-probabilities of allowed words (n, V), and the likeliest (n,)."""
    n = len(encoded)
    rows = torch.arange(n, device=encoded.row.device)  # the captions that are not finished
    token, state = torch.full_like(rows, BOS), captioner.start(encoded)
    steps: list[tuple[Tensor, ...]] = []
    for _ in range(length):
        logp, glimpse, state = captioner.step(token, encoded, state)
        allowed = without_special(logp.detach())
        if bias is not None:
            allowed = allowed + bias[rows]
        guess = allowed.max(1).indices  # faster than argmax
        token = choose(allowed, guess)
        picks = glimpse.picks(token, encoded.frame[encoded.row])
        steps.append((rows, token, logp.gather(1, token[:, None]).squeeze(1), glimpse.attn, guess, picks))
        going = (token != EOS).nonzero().squeeze(1)
        if not len(going):
            break
        if len(going) < len(rows):
            rows, token, encoded, state = rows[going], token[going], _narrow(encoded[going]), pick_rows(state, going)
    where = torch.cat([rows * len(steps) + t for t, (rows, *_) in enumerate(steps)])
    tokens, logp, attn, guess, picks = (
        _spread(torch.cat(x), where, n, len(steps)) for x in list(zip(*steps, strict=True))[1:]
    )
    return Decoding(tokens, logp, attn, guess, picks)


def sample_several(
    captioner: Captioner, encoded: EncodedImage, length: int, samples: int, greedy: bool = False
) -> Tensor:
    """`samples` drawn captions of each of N rows, tokens (N * samples, T); with `greedy` the likeliest (N) after them.

    One loop for all, dropout off, no gradient, and nothing but words: what learning from rewards begins with. They are
    drawn from the probabilities without PAD, BOS and UNK; score them with `mask_special`, as they were drawn.
    Equal votes of branches are decided by these probabilities, too, where `greedy` asks for those among all words.
    """
    with _generating(captioner, encoded) as (stepper, rows):
        return draw_several(stepper, rows, length, samples, greedy)


@torch.no_grad()
def draw_several(captioner: Captioner, encoded: EncodedImage, length: int, samples: int, greedy: bool) -> Tensor:
    """`sample_several` of a captioner in the mode in which it is."""
    n, drawn = len(encoded), len(encoded) * samples
    rows = torch.arange(drawn + n * greedy, device=encoded.row.device)  # the captions that are not finished
    tokens = rows.new_full((len(rows), length), PAD)
    of = torch.where(rows < drawn, rows // samples, rows - drawn)
    token, state = torch.full_like(encoded.row, BOS), captioner.start(encoded)
    for t in range(length):
        logp, _, state = captioner.step(token, encoded, state, mask_special=True)
        if t == 0:  # all captions of a row begin alike
            logp, encoded, state = logp[of], encoded[of], pick_rows(state, of)
        count = int((rows < drawn).sum())
        token = torch.cat([_draw(logp[:count].exp(), None), logp[count:].max(1).indices])
        tokens[rows, t] = token
        going = (token != EOS).nonzero().squeeze(1)
        if not len(going):
            break
        if len(going) < len(rows):
            rows, token, state = rows[going], token[going], pick_rows(state, going)
            encoded = _narrow(encoded[going])
    return tokens[:, : t + 1]


def _keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """-inf outside the `top_k` largest (0: all) and outside the smallest set whose probability reaches `top_p`."""
    if top_k:
        least = logits.topk(min(top_k, logits.shape[1]), 1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    if top_p < 1:
        p, order = logits.softmax(1).sort(1, descending=True)
        beyond = p.cumsum(1) - p >= top_p  # what comes before already reaches it; the first is always kept
        beyond[:, 0] = False
        logits = logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -math.inf)
    return logits


def _draw(p: Tensor, generator: torch.Generator | None) -> Tensor:
    """(n, V) -> (n,) one of each row, drawn by probability: where its sums first exceed a random share of all.

    One random number for each row, where multinomial takes V: with thousands of words it would be most of the time.
    """
    sums = p.cumsum(1)
    share = torch.rand(len(p), 1, generator=generator, device=p.device, dtype=p.dtype) * sums[:, -1:]
    share = share.minimum(sums[:, -1:].nextafter(torch.zeros_like(share)))  # rounding must not reach the whole
    return torch.searchsorted(sums, share, right=True).squeeze(1)


# ---------------------------------------------------------------- beam search


def beam(
    captioner: Captioner,
    encoded: EncodedImage,
    length: int,
    *,
    width: int = 3,
    length_penalty: float = 0.0,
    no_repeat: int = 0,
    min_length: int = 0,
    once: Tensor | None = None,
    conjunction: int = PAD,
    bias: Tensor | None = None,
) -> Decoding:
    """The best caption that beam search finds for each row, by Σ (logp + bias) / tokens^length_penalty.

    At every step the `width` best continuations of each row are kept; those that end are set aside and compared at
    last. `no_repeat`: no n-gram of that size twice, no word twice in a row nor on both sides of `conjunction` (0:
    allowed). `min_length`: no EOS before so many words. `once` (V,) bool: words that no caption has twice. All rows and
    beams are one batch. A row is dropped as soon as none of its beams can beat its best finished one.
    """
    if width < 1 or length_penalty < 0:
        raise ValueError(f"width must be at least 1 and length_penalty at least 0, got {width} and {length_penalty}")
    with _generating(captioner, encoded) as (stepper, rows):
        return _Beams(stepper, rows, length, width, length_penalty).search(
            no_repeat, min_length, once, conjunction, bias
        )


class _Beams:
    """The live beams of all unfinished rows, `each` per row, and the best finished caption of every row.

    A beam keeps its words, their log-probabilities and, for each step, the index of the glimpse that it came from.
    """

    def __init__(self, captioner: Captioner, encoded: EncodedImage, length: int, width: int, penalty: float) -> None:
        n, device = len(encoded), encoded.row.device
        exact = torch.promote_types(encoded.whole.dtype, torch.float32)
        self.captioner, self.all, self.length, self.width, self.penalty = captioner, encoded, length, width, penalty
        self.rows = torch.arange(n, device=device)  # (n,) the unfinished
        self.each = 1
        self.encoded, self.state = encoded, captioner.start(encoded)
        self.words = torch.full((n, 1), BOS, device=device)  # (n * each, t + 1)
        self.path = torch.empty(n, 0, dtype=torch.int64, device=device)  # (n * each, t) into the glimpses of step t
        self.logps = torch.empty(n, 0, dtype=exact, device=device)  # (n * each, t)
        self.total = torch.zeros(n, dtype=exact, device=device)  # (n * each,)
        self.glimpses: list[Glimpse] = []
        self.guesses: list[Tensor] = []
        self.best = torch.full((n,), -math.inf, dtype=exact, device=device)
        self.best_words = torch.zeros(n, length, dtype=torch.int64, device=device)
        self.best_path = torch.zeros_like(self.best_words)
        self.best_logps = torch.zeros(n, length, dtype=exact, device=device)

    def search(
        self, no_repeat: int, min_length: int, once: Tensor | None, conjunction: int, bias: Tensor | None
    ) -> Decoding:
        for t in range(self.length):
            logp, glimpse, self.state = self.captioner.step(self.words[:, -1], self.encoded, self.state)
            allowed = without_special(logp)
            if no_repeat or min_length or once is not None:
                _restrict(allowed, self.words[:, 1:], no_repeat, min_length, once, conjunction)
            scores = allowed if bias is None else allowed + bias[self.rows].repeat_interleave(self.each, 0)
            self.glimpses.append(glimpse)
            self.guesses.append(scores.max(1).indices)
            self.extend(allowed, scores)
            self.finish(t + 1)
            if not len(self.rows):
                break
        return self.result()

    def extend(self, allowed: Tensor, scores: Tensor) -> None:
        """Keep the `width` best of each row's beams times words, by `scores`; both (n * each, V)."""
        n, v = len(self.rows), allowed.shape[1]
        scores = (self.total[:, None] + scores).view(n, self.each * v)
        total, index = scores.topk(min(self.width, scores.shape[1]), 1)
        parent = (torch.arange(n, device=index.device)[:, None] * self.each + index // v).flatten()
        word = (index % v).flatten()
        self.each = index.shape[1]
        self.total = total.flatten()
        self.words = torch.cat([self.words[parent], word[:, None]], 1)
        self.path = torch.cat([self.path[parent], parent[:, None]], 1)
        self.logps = torch.cat([self.logps[parent], allowed[parent, word][:, None]], 1)
        self.state = pick_rows(self.state, parent)
        if len(parent) != len(self.encoded):  # a beam never leaves its row, so only their number can change
            self.encoded = self.encoded[parent]

    def finish(self, t: int) -> None:
        """Set aside what ended, then drop the rows that are decided."""
        ended = self.words[:, -1] == EOS if t < self.length else torch.ones_like(self.total, dtype=torch.bool)
        score, beam = (self.total / t**self.penalty).masked_fill(~ended, -math.inf).view(-1, self.each).max(1)
        better = (score > self.best[self.rows]).nonzero().squeeze(1)
        row, winner = self.rows[better], better * self.each + beam[better]
        self.best[row] = score[better]
        for best, live in (
            (self.best_words, self.words[:, 1:]),
            (self.best_path, self.path),
            (self.best_logps, self.logps),
        ):
            best[row, :t] = live[winner]
        self.total = self.total.masked_fill(ended, -math.inf)
        # Log-probability and bias only fall: spread over all tokens that are left they bound what a beam can reach.
        reach = self.total.view(-1, self.each).amax(1) / self.length**self.penalty
        going = (reach > self.best[self.rows]).nonzero().squeeze(1)
        if len(going) < len(self.rows):
            self.keep(going)

    def keep(self, going: Tensor) -> None:
        beams = (going[:, None] * self.each + torch.arange(self.each, device=going.device)).flatten()
        self.rows = self.rows[going]
        self.words, self.path, self.logps = self.words[beams], self.path[beams], self.logps[beams]
        self.total, self.state = self.total[beams], pick_rows(self.state, beams)
        self.encoded = _narrow(self.encoded[beams])

    def result(self) -> Decoding:
        tokens = self.best_words[:, : max(1, int((self.best_words != PAD).any(0).sum()))]
        t = tokens.shape[1]
        attn, guess, picks = [], [], []
        for i in range(t):
            source, real = self.best_path[:, i], tokens[:, i] != PAD
            glimpse = self.glimpses[i][source]
            attn.append(glimpse.attn * real[:, None])
            guess.append(self.guesses[i][source].masked_fill(~real, PAD))
            picks.append(glimpse.picks(tokens[:, i], self.all.frame[self.all.row]) & real[:, None])
        return Decoding(
            tokens, self.best_logps[:, :t], torch.stack(attn, 1), torch.stack(guess, 1), torch.stack(picks, 1)
        )


def _restrict(
    allowed: Tensor, words: Tensor, no_repeat: int, min_length: int, once: Tensor | None, conjunction: int
) -> None:
    """Take from `allowed` (M, V), in place, what may not follow `words` (M, t).

    That is: EOS before `min_length` words, the last word of an n-gram that is there already, the last word again, the
    word before `conjunction` after it, and words of `once` that are there already.
    """
    end = allowed[:, EOS].clone()
    if words.shape[1] < min_length:
        allowed[:, EOS] = -math.inf
    if 0 < no_repeat <= words.shape[1]:
        grams = words.unfold(1, no_repeat, 1)  # (M, t - n + 1, n)
        last = words[:, words.shape[1] - no_repeat + 1 :]
        seen = (grams[..., :-1] == last[:, None]).all(-1)
        allowed.scatter_(1, grams[..., -1].masked_fill(~seen, PAD), -math.inf)  # PAD is forbidden anyway
    if no_repeat and words.shape[1]:
        allowed.scatter_(1, words[:, -1:], -math.inf)
        joined = words[:, -2:-1].masked_fill(words[:, -1:] != conjunction, PAD)  # nothing, of a single word
        allowed.scatter_(1, joined, -math.inf)
    if once is not None:
        allowed.scatter_(1, words.masked_fill(~once[words], PAD), -math.inf)
    stuck = allowed.isneginf().all(1)  # a tiny vocabulary is used up: better to end than to choose what is forbidden
    allowed[:, EOS] = torch.where(stuck, end, allowed[:, EOS])


# ----------------------------------------------------------------


@contextmanager
def _generating(captioner: Captioner, encoded: EncodedImage) -> Iterator[tuple[Captioner, EncodedImage]]:
    """No gradients, dropout off; what makes the steps of these rows: the captioner, or a faster one that it offers."""
    with torch.no_grad(), _dropout_off(captioner):
        yield captioner.stepper(encoded) if isinstance(captioner, SteppingCaptioner) else (captioner, encoded)


@contextmanager
def _dropout_off(captioner: Captioner) -> Iterator[None]:
    """Eval mode, and afterwards each part in the mode in which it was."""
    training = [m for m in captioner.modules() if m.training] if isinstance(captioner, nn.Module) else []
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def _narrow(encoded: EncodedImage) -> EncodedImage:
    """Without the images that no row needs any more: one copy here saves one at every step."""
    return encoded.only(torch.bincount(encoded.row).nonzero().squeeze(1))


def pick_rows(state: Any, index: Tensor) -> Any:
    """Rows of a state, which is tensors in tuples."""
    if isinstance(state, Tensor):
        return state[index]
    parts = [pick_rows(part, index) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def _spread(values: Tensor, where: Tensor, n: int, t: int) -> Tensor:
    """Values (M, ...) of the positions `where` = row * t + step, into (n, t, ...); 0 elsewhere. Differentiable."""
    empty = values.new_zeros(n * t, *values.shape[1:])
    return empty.index_copy(0, where, values).view(n, t, *values.shape[1:])
