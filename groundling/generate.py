"""Captions out of a captioner: greedy, sampled, beam. Written on `start` and `step` alone.

Every word keeps what was attended to say it. PAD, BOS and UNK are never said. A caption has at most `length` tokens,
EOS included; one that reaches the limit stops there without EOS. `logp` is the captioner's own log-probability,
whatever the choice among words was restricted to, so that teacher forcing of a caption gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from groundling import boxes
from groundling.tensors import Captioner, Decoding, Glimpse, Matcher, Regions, Scene, sayable
from groundling.types import BOS, EOS, PAD, Box, GroundedCaption, Link, Look, Span, Vocab

# ---------------------------------------------------------------- one caption per row


def greedy(captioner: Captioner, scene: Scene, length: int) -> Decoding:
    """The likeliest word at every step; dropout off, no gradient."""
    with torch.no_grad(), _dropout_off(captioner):
        return _decode(captioner, scene, length, lambda logp, likeliest: likeliest)


def sample(
    captioner: Captioner,
    scene: Scene,
    length: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Decoding:
    """Words drawn from p^(1/temperature), among the `top_k` likeliest and the smallest set of probability >= `top_p`.

    The captioner stays in its mode (training with dropout, or eval); `logp` is differentiable where gradients are on.
    To learn from long captions, drawing without gradients and scoring them by teacher forcing is faster.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, got {temperature}; use greedy for the likeliest words")

    def draw(logp: Tensor, likeliest: Tensor) -> Tensor:
        return _draw(_keep_likeliest(logp / temperature, top_k, top_p).softmax(1), generator)

    return _decode(captioner, scene, length, draw)


def _decode(captioner: Captioner, scene: Scene, length: int, choose: Callable[[Tensor, Tensor], Tensor]) -> Decoding:
    """One caption per row; `choose` takes what may be said, log-probabilities (n, V), and the likeliest of it (n,)."""
    n = len(scene)
    rows = torch.arange(n, device=scene.row.device)  # the captions that are not finished
    token, state = torch.full_like(rows, BOS), captioner.start(scene)
    steps: list[tuple[Tensor, ...]] = []
    for _ in range(length):
        logp, glimpse, state = captioner.step(token, scene, state)
        may = sayable(logp.detach())
        guess = may.max(1).indices  # faster than argmax
        token = choose(may, guess)
        picks = glimpse.picks(token, scene.frame[scene.row])
        steps.append((rows, token, logp.gather(1, token[:, None]).squeeze(1), glimpse.attn, guess, picks))
        going = (token != EOS).nonzero().squeeze(1)
        if not len(going):
            break
        if len(going) < len(rows):
            rows, token, scene, state = rows[going], token[going], _narrow(scene[going]), pick_rows(state, going)
    where = torch.cat([rows * len(steps) + t for t, (rows, *_) in enumerate(steps)])
    tokens, logp, attn, guess, picks = (
        _spread(torch.cat(x), where, n, len(steps)) for x in list(zip(*steps, strict=True))[1:]
    )
    return Decoding(tokens, logp, attn, guess, picks)


def rehearse(captioner: Captioner, scene: Scene, length: int, samples: int) -> tuple[Tensor, Tensor]:
    """What each of N rows would say by `greedy`, tokens (N, T), and `samples` drawn captions of each, (N * samples, T).

    One loop for all, dropout off, no gradient, and nothing but words: what learning from rewards begins with. They are
    drawn from the probabilities among the words that are said; to score them as they were drawn, say them `aloud`.
    Equal votes of branches are decided by these probabilities, too, where `greedy` asks for those among all words.
    """
    n, each = len(scene), 1 + samples  # the first of each row is the likeliest
    rows = torch.arange(n * each, device=scene.row.device)  # the captions that are not finished
    tokens, of = rows.new_full((n * each, length), PAD), rows // each
    with torch.no_grad(), _dropout_off(captioner):
        token, state = torch.full_like(scene.row, BOS), captioner.start(scene)
        for t in range(length):
            logp, _, state = captioner.step(token, scene, state, aloud=True)
            if t == 0:  # all captions of a row begin alike
                logp, scene, state = logp[of], scene[of], pick_rows(state, of)
            likeliest = (rows % each == 0).nonzero().squeeze(1)
            token = _draw(logp.exp(), None).index_copy(0, likeliest, logp[likeliest].max(1).indices)
            tokens[rows, t] = token
            going = (token != EOS).nonzero().squeeze(1)
            if not len(going):
                break
            if len(going) < len(rows):
                rows, token, scene, state = rows[going], token[going], _narrow(scene[going]), pick_rows(state, going)
    tokens = tokens[:, : t + 1].view(n, each, t + 1)
    return tokens[:, 0], tokens[:, 1:].flatten(0, 1)


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
    """(n, V) -> (n,) one of each row, as likely as it says: where its sums first exceed a random share of the whole.

    One random number for each row, where multinomial takes V: with thousands of words it would be most of the time.
    """
    sums = p.cumsum(1)
    share = torch.rand(len(p), 1, generator=generator, device=p.device, dtype=p.dtype) * sums[:, -1:]
    share = share.minimum(sums[:, -1:].nextafter(torch.zeros_like(share)))  # rounding must not reach the whole
    return torch.searchsorted(sums, share, right=True).squeeze(1)


# ---------------------------------------------------------------- beam search


def beam(
    captioner: Captioner,
    scene: Scene,
    length: int,
    *,
    width: int = 3,
    length_penalty: float = 0.0,
    no_repeat: int = 0,
    min_length: int = 0,
) -> Decoding:
    """The best caption that beam search finds for each row, by Σ logp / tokens^length_penalty.

    At every step the `width` best continuations of each row are kept; those that end are set aside and compared at
    last. `no_repeat`: no n-gram of that size twice (0: allowed). `min_length`: no EOS before so many words.
    All rows and beams are one batch. A row is dropped as soon as none of its beams can beat its best finished one.
    """
    if width < 1 or length_penalty < 0:
        raise ValueError(f"width must be at least 1 and length_penalty at least 0, got {width} and {length_penalty}")
    with torch.no_grad(), _dropout_off(captioner):
        return _Beams(captioner, scene, length, width, length_penalty).search(no_repeat, min_length)


class _Beams:
    """The live beams of all unfinished rows, `each` per row, and the best finished caption of every row.

    A beam keeps its words, their log-probabilities and, for each step, the index of the glimpse that it came from.
    """

    def __init__(self, captioner: Captioner, scene: Scene, length: int, width: int, penalty: float) -> None:
        n, device = len(scene), scene.row.device
        exact = torch.promote_types(scene.whole.dtype, torch.float32)
        self.captioner, self.all, self.length, self.width, self.penalty = captioner, scene, length, width, penalty
        self.rows = torch.arange(n, device=device)  # (n,) the unfinished
        self.each = 1
        self.scene, self.state = scene, captioner.start(scene)
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

    def search(self, no_repeat: int, min_length: int) -> Decoding:
        for t in range(self.length):
            logp, glimpse, self.state = self.captioner.step(self.words[:, -1], self.scene, self.state)
            may = sayable(logp)
            if no_repeat or min_length:
                _restrict(may, self.words[:, 1:], no_repeat, min_length)
            self.glimpses.append(glimpse)
            self.guesses.append(may.max(1).indices)
            self.extend(may)
            self.finish(t + 1)
            if not len(self.rows):
                break
        return self.result()

    def extend(self, may: Tensor) -> None:
        """Keep the `width` best of each row's beams times words."""
        n, v = len(self.rows), may.shape[1]
        scores = (self.total[:, None] + may).view(n, self.each * v)
        total, index = scores.topk(min(self.width, scores.shape[1]), 1)
        parent = (torch.arange(n, device=index.device)[:, None] * self.each + index // v).flatten()
        word = (index % v).flatten()
        self.each = index.shape[1]
        self.total = total.flatten()
        self.words = torch.cat([self.words[parent], word[:, None]], 1)
        self.path = torch.cat([self.path[parent], parent[:, None]], 1)
        self.logps = torch.cat([self.logps[parent], may[parent, word][:, None]], 1)
        self.state = pick_rows(self.state, parent)
        if len(parent) != len(self.scene):  # a beam never leaves its row, so only their number can change
            self.scene = self.scene[parent]

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
        # A log-probability only falls; spread over all tokens that are left it bounds what a live beam can reach.
        reach = self.total.view(-1, self.each).amax(1) / self.length**self.penalty
        going = (reach > self.best[self.rows]).nonzero().squeeze(1)
        if len(going) < len(self.rows):
            self.keep(going)

    def keep(self, going: Tensor) -> None:
        beams = (going[:, None] * self.each + torch.arange(self.each, device=going.device)).flatten()
        self.rows = self.rows[going]
        self.words, self.path, self.logps = self.words[beams], self.path[beams], self.logps[beams]
        self.total, self.state = self.total[beams], pick_rows(self.state, beams)
        self.scene = _narrow(self.scene[beams])

    def result(self) -> Decoding:
        tokens = self.best_words[:, : max(1, int((self.best_words != PAD).any(0).sum()))]
        t = tokens.shape[1]
        attn, guess, picks = [], [], []
        for i in range(t):
            source, spoken = self.best_path[:, i], tokens[:, i] != PAD
            look = self.glimpses[i][source]
            attn.append(look.attn * spoken[:, None])
            guess.append(self.guesses[i][source].masked_fill(~spoken, PAD))
            picks.append(look.picks(tokens[:, i], self.all.frame[self.all.row]) & spoken[:, None])
        return Decoding(
            tokens, self.best_logps[:, :t], torch.stack(attn, 1), torch.stack(guess, 1), torch.stack(picks, 1)
        )


def _restrict(may: Tensor, words: Tensor, no_repeat: int, min_length: int) -> None:
    """After `words` (M, t), take from `may` (M, V) what would end too soon or say an n-gram again; in place."""
    end = may[:, EOS].clone()
    if words.shape[1] < min_length:
        may[:, EOS] = -math.inf
    if 0 < no_repeat <= words.shape[1]:
        grams = words.unfold(1, no_repeat, 1)  # (M, t - n + 1, n)
        last = words[:, words.shape[1] - no_repeat + 1 :]
        seen = (grams[..., :-1] == last[:, None]).all(-1)
        may.scatter_(1, grams[..., -1].masked_fill(~seen, PAD), -math.inf)  # PAD is forbidden anyway
    stuck = may.isneginf().all(1)  # a tiny vocabulary is used up: better to end than to say what is forbidden
    may[:, EOS] = torch.where(stuck, end, may[:, EOS])


# ---------------------------------------------------------------- words to places


def place(said: Decoding, regions: Regions) -> tuple[Tensor, Tensor]:
    """Where each word is: boxes (N, T, F, 4), one per frame, and scores (N, T, F); NaN and 0 where there is none.

    The box is the union of the word's regions in that frame, the score their share of the attention. For captions that
    were not generated here (teacher forcing of a given sentence), the region is the most attended one of each frame.
    Row i of `said` speaks of row i of `regions`.
    """
    n, t, r = said.attn.shape
    if not regions.boxes.numel():
        return said.attn.new_full((n, t, 1, 4), math.nan), said.attn.new_zeros(n, t, 1)
    picks = said.picks
    if picks is None:
        frame = regions.frame[:, None].expand(n, t, r).reshape(n * t, r)
        picks = Glimpse(said.attn.reshape(n * t, r)).picks(said.tokens.flatten(), frame).view(n, t, r)
    here = [picks & (regions.frame == f)[:, None] for f in range(int(regions.frame.max()) + 1)]
    return (
        torch.stack([boxes.union(regions.boxes[:, None].expand(n, t, r, 4), p) for p in here], 2),
        torch.stack([(said.attn * p).sum(-1) for p in here], 2),
    )


def look_again(said: Decoding, regions: Regions, matcher: Matcher, trust: float) -> Decoding:
    """The same words, their places weighed once more by a matcher that knows what was said:

        a_t ∝ β_t^(1 − trust) α_t^trust

    β: what the captioner looked at while it chose the word.  α: where the matcher sees it.  A word that the matcher
    does not place stays where it was; one that it places is, in each frame, at the region that most likely covers it
    (`boxes.hits`). Row i of `said` speaks of row i of `regions`.
    """
    n, t, r = said.attn.shape
    alpha = matcher.point(regions, said.tokens, torch.arange(n, device=said.tokens.device))
    known = alpha.sum(-1) > 0  # (N, T)
    tiny = torch.finfo(said.attn.dtype).tiny
    mixed = (1 - trust) * said.attn.clamp(min=tiny).log() + trust * alpha.clamp(min=tiny).log()
    mixed = mixed.masked_fill(~regions.valid[:, None], -math.inf)
    attn = torch.where(known[..., None], mixed.softmax(-1), said.attn)
    frame = regions.frame[:, None].expand(n, t, r).reshape(n * t, r)
    alike = regions.frame[:, :, None] == regions.frame[:, None]
    sure = (attn @ (boxes.hits(regions.boxes) * alike)).masked_fill(~regions.valid[:, None], -1.0)
    heaviest = Glimpse(sure.reshape(n * t, r)).picks(said.tokens.flatten(), frame).view(n, t, r)
    picks = heaviest if said.picks is None else torch.where(known[..., None], heaviest, said.picks)
    return replace(said, attn=attn, picks=picks)


def ground(
    said: Decoding,
    regions: Regions,
    vocab: Vocab,
    ids: Sequence[str],
    groundable: Callable[[str], bool] | Collection[str],
    *,
    looks: int = 5,
    media: Sequence[str] = (),
) -> list[GroundedCaption]:
    """Captions as people read them: words joined by spaces, a Link for each groundable word and frame, a Look for all.

    A link's score is the attention on the regions whose union is its box. `looks`: how many regions a Look shows.
    Row i of `said` speaks of row i of `regions`, which is `ids[i]`.
    """
    is_groundable = groundable if callable(groundable) else groundable.__contains__
    where, sure = (x.tolist() for x in place(said, regions))  # [row][token][frame]
    weights, top = (x.tolist() for x in said.attn.topk(min(looks, said.attn.shape[2]), 2))
    region_boxes, frames, sizes = regions.boxes.tolist(), regions.frame.tolist(), regions.size.tolist()
    captions = []
    for i, (name, ids_said, logp) in enumerate(zip(ids, said.tokens.tolist(), said.logp.sum(1).tolist(), strict=True)):
        tokens = tuple(vocab.decode(ids_said))
        spans = _spans(tokens)
        links = [
            Link(t, spans[t], _box(box), min(1.0, score), frame)
            for t, word in enumerate(tokens)
            if is_groundable(word)
            for frame, (box, score) in enumerate(zip(where[i][t], sure[i][t], strict=True))
            if not math.isnan(box[0])
        ]
        shown = [_look(t, top[i][t], weights[i][t], region_boxes[i], frames[i]) for t in range(len(tokens))]
        size = (round(sizes[i][0]), round(sizes[i][1]))
        source = media[i] if media else ""
        captions.append(
            GroundedCaption(name, " ".join(tokens), tokens, spans, tuple(links), tuple(shown), logp, size, source)
        )
    return captions


def _look(
    token: int, top: Sequence[int], weights: Sequence[float], places: Sequence[Sequence[float]], frames: Sequence[int]
) -> Look:
    seen = [(r, w) for r, w in zip(top, weights, strict=True) if w > 0]
    return Look(
        token,
        tuple(_box(places[r]) for r, _ in seen),
        tuple(w for _, w in seen),
        tuple(frames[r] for r, _ in seen),
    )


def _spans(tokens: Sequence[str]) -> tuple[Span, ...]:
    """Characters of each token in the tokens joined by spaces."""
    spans, start = [], 0
    for token in tokens:
        spans.append((start, start + len(token)))
        start += len(token) + 1
    return tuple(spans)


def _box(values: Sequence[float]) -> Box:
    left, top, right, bottom = values
    return left, top, right, bottom


# ----------------------------------------------------------------


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


def _narrow(scene: Scene) -> Scene:
    """Without the images that no row looks at any more: one copy here saves one at every step."""
    return scene.only(torch.bincount(scene.row).nonzero().squeeze(1))


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
