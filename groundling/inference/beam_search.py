"""Beam search on arrays: what `decoding.beam` does, for a captioner whose step is a function of arrays. No torch.

Beams of all images are rows of one batch. At every step the `beam` best continuations of each image are kept; those
that end are set aside, and an image is done as soon as none of its beams can beat its best finished one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.inference.settings import BeamSearch
from groundling.types import BOS, EOS, PAD, UNK

Array = NDArray[Any]
State = tuple[Array, ...]  # arrays whose first axis is that of the rows
Step = Callable[[Array, Array, State], tuple[Array, Array, State]]
# words before (N,), the image of each row (N,), state -> log-probabilities (N, V), attention (N, R), the new state


@dataclass(frozen=True)
class Said:
    """A caption: its words, EOS among them where it ended by itself, and what was attended to say each."""

    words: tuple[int, ...] = ()
    logps: tuple[float, ...] = ()
    attn: tuple[Array, ...] = ()  # of each word (R,)
    total: np.float32 = np.float32(0)  # log-probability

    def then(self, word: int, logp: float, attn: Array, total: np.float32) -> Said:
        return Said((*self.words, word), (*self.logps, logp), (*self.attn, attn), total)


def beam_search(step: Step, state: State, length: int, settings: BeamSearch, nouns: Sequence[bool] = ()) -> list[Said]:
    """The best caption of each image, of at most `length` tokens; `state` has one row for each image.

    `nouns`: which words are nouns, where that is known.
    """
    once = () if settings.repeat_nouns else nouns
    images = len(state[0])
    beams = {image: [Said()] for image in range(images)}
    best, best_score = [Said()] * images, [-math.inf] * images
    for t in range(1, length + 1):
        rows = [(image, beam) for image, live in beams.items() for beam in live]
        tokens = np.array([beam.words[-1] if beam.words else BOS for _, beam in rows])
        logp, attn, state = step(tokens, np.array([image for image, _ in rows]), state)
        for may, (_, beam) in zip(logp, rows, strict=True):
            _restrict(may, beam.words, settings, once)
        parents: list[int] = []
        going: dict[int, list[Said]] = {}
        start = 0
        for image, live in beams.items():
            kept: list[tuple[int, Said]] = []
            for parent, word, total in _continued(live, logp[start : start + len(live)], settings.beam):
                row = start + parent
                longer = live[parent].then(word, float(logp[row, word]), attn[row], total)
                if word != EOS and t < length:
                    kept.append((row, longer))
                elif total / t**settings.length_penalty > best_score[image]:
                    best[image], best_score[image] = longer, float(total / t**settings.length_penalty)
            start += len(live)
            # log-probabilities only fall: spread over all tokens that are left they bound what a beam can reach
            reach = max((beam.total for _, beam in kept), default=-math.inf) / length**settings.length_penalty
            if reach > best_score[image]:
                going[image] = [beam for _, beam in kept]
                parents += [row for row, _ in kept]
        if not going:
            break
        beams, state = going, tuple(x[parents] for x in state)
    return best


def _continued(live: Sequence[Said], may: Array, width: int) -> list[tuple[int, int, np.float32]]:
    """The `width` best continuations of one image's beams, best first: beam, word, log-probability of all words."""
    scores = (may + np.array([beam.total for beam in live], np.float32)[:, None]).ravel()
    if width == 1:
        chosen = np.array([scores.argmax()])
    else:
        chosen = np.argpartition(-scores, min(width, len(scores)) - 1)[:width]
        chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    return [(*divmod(int(i), may.shape[1]), scores[i]) for i in chosen if scores[i] > -math.inf]


def _restrict(may: Array, words: Sequence[int], settings: BeamSearch, once: Sequence[bool]) -> None:
    """−∞, in place, in log-probabilities (V,) for what may not follow these words; as `decoding._restrict`."""
    may[[PAD, BOS, UNK]] = -math.inf
    end, n = may[EOS], settings.no_repeat
    if len(words) < settings.min_length:
        may[EOS] = -math.inf
    if n and words:
        last = words[len(words) - n + 1 :] if len(words) >= n else None
        again = [words[i + n - 1] for i in range(len(words) - n + 1) if words[i : i + n - 1] == last]
        may[[*again, words[-1]]] = -math.inf
    if once:
        may[[word for word in words if once[word]]] = -math.inf
    if np.isneginf(may).all():  # a tiny vocabulary is used up: better to end than to say what is forbidden
        may[EOS] = end
