"""How words are chosen, on arrays: what `decoding` does, for a captioner whose step is a function of arrays. No torch.

Beams of all images are rows of one batch. At every step the `beam` best continuations of each image are kept; those
that end are set aside, and an image is done as soon as none of its beams can beat its best finished one. A drawn word
depends on the seed as it does with torch: both draw the same numbers, those of the Mersenne Twister.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.inference.settings import BeamSearch, DecodingSettings, Sampling
from groundling.types import BOS, EOS, PAD, UNK

Array = NDArray[Any]
State = tuple[Array, ...]  # arrays whose first axis is that of the rows
Step = Callable[[Array, Array, State], tuple[Array, Array, State]]
# words before (N,), the image of each row (N,), state -> log-probabilities (N, V), attention (N, R), the new state


@dataclass(frozen=True)
class Chosen:
    """A caption: its words, EOS among them where it ended by itself, and what was attended to say each."""

    words: tuple[int, ...] = ()
    logps: tuple[float, ...] = ()
    attn: tuple[Array, ...] = ()  # of each word (R,)
    total: np.float32 = np.float32(0)  # log-probability, and what evidence adds

    def then(self, word: int, logp: float, attn: Array, total: np.float32) -> Chosen:
        return Chosen((*self.words, word), (*self.logps, logp), (*self.attn, attn), total)


def choose_words(
    step: Step,
    state: State,
    length: int,
    settings: DecodingSettings,
    once: Sequence[bool] = (),
    conjunction: int = PAD,
    log_evidence: Array | None = None,
) -> list[Chosen]:
    """A caption of each image, of at most `length` tokens; `state` has one row for each image.

    `once`: words that no caption has twice, unless `settings` let nouns be repeated. `conjunction`: the id of "and".
    `log_evidence` (B, V): see `BeamSearch`.
    """
    bias = settings.evidence_weight * log_evidence if settings.evidence_weight and log_evidence is not None else None
    if isinstance(settings, Sampling):
        return _sample(step, state, length, settings, bias)
    return _beam_search(step, state, length, settings, once, conjunction, bias)


def _sample(step: Step, state: State, length: int, settings: Sampling, bias: Array | None) -> list[Chosen]:
    """As `decoding.sample`: rows are the captions that go on."""
    draw = np.random.RandomState(settings.seed & 0xFFFFFFFF)
    chosen = [Chosen()] * len(state[0])
    rows = np.arange(len(chosen))
    tokens = np.full(len(rows), BOS)
    for _ in range(length):
        logp, attn, state = step(tokens, rows, state)
        may = logp.copy()
        may[:, [PAD, BOS, UNK]] = -math.inf
        if bias is not None:
            may += bias[rows]
        tokens = _drawn(_keep_likeliest(may / np.float32(settings.temperature), settings), draw)
        for i, (row, word) in enumerate(zip(rows, tokens.tolist(), strict=True)):
            chosen[row] = chosen[row].then(word, float(logp[i, word]), attn[i], chosen[row].total + logp[i, word])
        going = np.flatnonzero(tokens != EOS)
        if not len(going):
            break
        rows, tokens, state = rows[going], tokens[going], tuple(x[going] for x in state)
    return chosen


def _keep_likeliest(logits: Array, settings: Sampling) -> Array:
    """(N, V) -> probabilities (N, V); 0 outside the `top_k` largest and the smallest set that reaches `top_p`."""
    if settings.top_k:
        k = min(settings.top_k, logits.shape[1])
        logits = np.where(logits < np.partition(logits, -k, 1)[:, -k, None], -math.inf, logits)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    if settings.top_p < 1:
        order = np.argsort(-p, axis=1, kind="stable")
        sorted_p = np.take_along_axis(p, order, 1)
        beyond = np.cumsum(sorted_p, 1) - sorted_p >= settings.top_p  # what comes before already reaches it
        beyond[:, 0] = False
        np.put_along_axis(p, order, np.where(beyond, 0, sorted_p), 1)
    return np.asarray(p)


def _drawn(p: Array, draw: np.random.RandomState) -> Array:
    """(N, V) -> (N,): where the sums of a row first exceed a random share of the whole, of 24 bits as torch's is."""
    sums = p.cumsum(1)
    share = (draw.randint(0, 1 << 32, len(p), np.uint32) & ((1 << 24) - 1)) / np.float32(1 << 24)
    share = np.minimum(share.astype(np.float32) * sums[:, -1], np.nextafter(sums[:, -1], np.float32(0)))
    return np.array([np.searchsorted(row, x, side="right") for row, x in zip(sums, share, strict=True)])


def _beam_search(
    step: Step,
    state: State,
    length: int,
    settings: BeamSearch,
    once: Sequence[bool],
    conjunction: int,
    bias: Array | None,
) -> list[Chosen]:
    once = () if settings.repeat_nouns else once
    images = len(state[0])
    beams = {image: [Chosen()] for image in range(images)}
    best, best_score = [Chosen()] * images, [-math.inf] * images
    for t in range(1, length + 1):
        rows = [(image, beam) for image, live in beams.items() for beam in live]
        tokens = np.array([beam.words[-1] if beam.words else BOS for _, beam in rows])
        logp, attn, state = step(tokens, np.array([image for image, _ in rows]), state)
        for may, (_, beam) in zip(logp, rows, strict=True):
            _restrict(may, beam.words, settings, once, conjunction)
        scores = logp if bias is None else logp + bias[[image for image, _ in rows]]
        parents: list[int] = []
        going: dict[int, list[Chosen]] = {}
        start = 0
        for image, live in beams.items():
            kept: list[tuple[int, Chosen]] = []
            for parent, word, total in _continued(live, scores[start : start + len(live)], settings.beam):
                row = start + parent
                longer = live[parent].then(word, float(logp[row, word]), attn[row], total)
                if word != EOS and t < length:
                    kept.append((row, longer))
                elif total / t**settings.length_penalty > best_score[image]:
                    best[image], best_score[image] = longer, float(total / t**settings.length_penalty)
            start += len(live)
            # log-probability and evidence only fall: spread over all tokens that are left they bound what is in reach
            reach = max((beam.total for _, beam in kept), default=-math.inf) / length**settings.length_penalty
            if reach > best_score[image]:
                going[image] = [beam for _, beam in kept]
                parents += [row for row, _ in kept]
        if not going:
            break
        beams, state = going, tuple(x[parents] for x in state)
    return best


def _continued(live: Sequence[Chosen], may: Array, width: int) -> list[tuple[int, int, np.float32]]:
    """The `width` best continuations of one image's beams, best first: beam, word, score of all words."""
    scores = (may + np.array([beam.total for beam in live], np.float32)[:, None]).ravel()
    found: list[tuple[int, int, np.float32]] = []
    for _ in range(min(width, len(scores))):  # for few, faster than to sort or to part the scores
        i = int(scores.argmax())
        if not scores[i] > -math.inf:
            break
        found.append((*divmod(i, may.shape[1]), scores[i]))
        scores[i] = -math.inf
    return found


def _restrict(may: Array, words: Sequence[int], settings: BeamSearch, once: Sequence[bool], conjunction: int) -> None:
    """−∞, in place, in log-probabilities (V,) for what may not follow these words; as `decoding._restrict`."""
    may[[PAD, BOS, UNK]] = -math.inf
    end, n = may[EOS], settings.no_repeat
    if len(words) < settings.min_length:
        may[EOS] = -math.inf
    if n and words:
        last = words[len(words) - n + 1 :] if len(words) >= n else None
        again = [words[i + n - 1] for i in range(len(words) - n + 1) if words[i : i + n - 1] == last]
        may[[*again, words[-1]]] = -math.inf
        if len(words) > 1 and words[-1] == conjunction:
            may[words[-2]] = -math.inf
    if once:
        may[[word for word in words if once[word]]] = -math.inf
    if may.max() == -math.inf:  # a tiny vocabulary is used up: better to end than to say what is forbidden
        may[EOS] = end
