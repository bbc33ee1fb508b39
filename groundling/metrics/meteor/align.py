"""How METEOR aligns a caption with a reference: all matches first, then a beam search for the best set of them.

Matches are of words (exact, same stem, synonyms) and of phrases (paraphrases); a word takes part in one at most. The
search goes through the reference from left to right with 40 partial alignments, preferring, in this order: more
words matched, by weight; fewer chunks; less distance. Ties are decided by order, so order and three peculiarities of
the program that the field quotes are kept: the search has weights of its own, not those of the score; they are rounded
down at each match (a stem counts 0, a paraphrase of two words 1); and the distance of a match is charged to the
alignments that do without it.

Many pairs are searched at once: the partial alignments of pairs whose references are equally long are rows of arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.meteor.lexicon import PARAPHRASE, Lexicon
from groundling.metrics.meteor.paraphrases import Paraphrases

BEAM = 40
WEIGHTS = (1.0, 0.5, 0.5, 0.5)  # of the search: exact, stem, synonym, paraphrase
TOGETHER = 256  # pairs searched at once
LONGEST = 2000  # words of a caption; the fields of the sort key below hold twice as many

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Match:
    """Words [start, start + length) of the reference say what words [said, said + words) of the caption say."""

    start: int
    length: int
    said: int
    words: int
    kind: int


@dataclass(frozen=True)
class Pair:
    """A caption, a reference, and the matches that begin at each word of the reference."""

    caption: list[str]
    reference: list[str]
    matches: list[list[Match]]

    def certain(self) -> list[int]:
        """For each word of the reference 0 if its only match has no rival, else -1."""
        of_caption, of_reference = [0] * len(self.caption), [0] * len(self.reference)
        for here in self.matches:
            for match in here:
                for i in range(match.said, match.said + match.words):
                    of_caption[i] += 1
                for j in range(match.start, match.start + match.length):
                    of_reference[j] += 1
        return [
            0
            if len(here) == 1
            and all(of_reference[j] == 1 for j in range(here[0].start, here[0].start + here[0].length))
            and all(of_caption[i] == 1 for i in range(here[0].said, here[0].said + here[0].words))
            else -1
            for here in self.matches
        ]


def pair(caption: list[str], reference: list[str], lexicon: Lexicon, paraphrases: Paraphrases) -> Pair:
    """All matches, kind by kind. Of two equal sentences, only the exact ones."""
    found: list[list[list[int]]] = [[[] for _ in reference] for _ in range(PARAPHRASE)]
    for j, word in enumerate(reference):
        for i, said in enumerate(caption):
            for kind in lexicon.kinds(said, word):
                found[kind][j].append(i)
    equal = caption == reference
    kinds = range(1) if equal else range(PARAPHRASE)
    matches = [[Match(j, 1, i, 1, kind) for kind in kinds for i in found[kind][j]] for j in range(len(reference))]
    if not equal:
        for j, length, i, words in paraphrases.within(reference, caption):
            matches[j].append(Match(j, length, i, words, PARAPHRASE))
        for i, words, j, length in paraphrases.within(caption, reference):
            matches[j].append(Match(j, length, i, words, PARAPHRASE))
    return Pair(caption, reference, matches)


def align(pairs: Sequence[Pair]) -> list[list[Match]]:
    """The matches of the best alignment of each pair, in the order of the reference."""
    chosen: list[list[Match]] = [[] for _ in pairs]
    searched: dict[tuple[int, bool], list[tuple[int, list[int]]]] = defaultdict(list)
    for number, one in enumerate(pairs):
        certain = one.certain()
        if all(k == 0 or not here for k, here in zip(certain, one.matches, strict=True)):
            chosen[number] = [here[0] for here in one.matches if here]
        else:
            long = max(len(one.caption), len(one.reference)) > 64
            searched[len(one.reference), long].append((number, certain))
    for (_, long), group in searched.items():
        rest = iter(group)
        while block := list(islice(rest, TOGETHER)):
            best = _search([pairs[number] for number, _ in block], np.array([c for _, c in block]), long)
            for (number, _), indices in zip(block, best.tolist(), strict=True):
                chosen[number] = [here[k] for here, k in zip(pairs[number].matches, indices, strict=True) if k >= 0]
    return chosen


def chunks(matches: Iterable[Match]) -> int:
    """Runs of matches that are next to each other, in the same order, in caption and reference."""
    count, end = 0, (-1, -1)
    for match in matches:
        count += (match.start, match.said) != end
        end = match.start + match.length, match.said + match.words
    return count


# ---------------------------------------------------------------- the search


@dataclass
class _Beam:
    """Partial alignments of P pairs, W each; `order` sorts them. `used` are bits, one a word."""

    alive: NDArray[np.bool_]  # (P, W)
    weight: Ints  # of the matched words, rounded down
    weight_said: Ints
    chunks: Ints
    distance: Ints
    next: Ints  # word of the reference
    end: Ints  # of the last match in the caption; -1 where the word before has none
    used: NDArray[Any]  # words of the reference
    used_said: NDArray[Any]  # of the caption
    chosen: NDArray[np.int16]  # (P, W, J), match of each word of the reference or -1

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        yield from vars(self).items()

    def best(self, width: int) -> _Beam:
        """The first `width` in order of preference; among equals the earlier ones."""
        key = ((LONGEST * 2 - self.weight - self.weight_said) << 48) | (self.chunks << 36) | self.distance
        key[~self.alive] = np.iinfo(np.int64).max
        order = np.argsort(key, axis=1, kind="stable")[:, :width]
        width = min(width, max(1, int(self.alive.sum(1).max())))
        rows = np.arange(len(key))[:, None]
        return _Beam(**{name: value[rows, order[:, :width]] for name, value in self.arrays()})


def _search(pairs: Sequence[Pair], certain: NDArray[np.int64], long: bool) -> NDArray[np.int16]:
    """(P, J): the match of each word of the reference in the best alignment, or -1."""
    table = _Table(pairs, long)
    beam = table.start(certain)
    for j in range(certain.shape[1]):
        beam = beam.best(BEAM)
        grown = table.grow(beam, j)
        lost = ~grown.alive.any(1)  # nothing fits on: the best so far goes on as it is
        if lost.any():
            grown.alive[lost, 0] = True
            for name, value in grown.arrays():
                if name != "alive":
                    value[lost, 0] = dict(beam.arrays())[name][lost, 0]
        beam = grown
    beam = beam.best(BEAM)
    beam.chunks += beam.end != -1
    return beam.best(1).chosen[:, 0]


class _Table:
    """The matches of P pairs whose references have J words, as arrays (P, J, M)."""

    def __init__(self, pairs: Sequence[Pair], long: bool) -> None:
        self.p, self.j = len(pairs), len(pairs[0].reference)
        self.bits: Any = object if long else np.uint64  # Python's integers hold any number of words
        most = max(len(here) for one in pairs for here in one.matches)
        self.known = np.zeros((self.p, self.j, most), bool)
        self.fields = np.zeros((self.p, self.j, most, 5), np.int64)  # start, length, said, words, kind
        for n, one in enumerate(pairs):
            for j, here in enumerate(one.matches):
                self.known[n, j, : len(here)] = True
                for k, m in enumerate(here):
                    self.fields[n, j, k] = m.start, m.length, m.said, m.words, m.kind
        start, length, said, words, kind = np.moveaxis(self.fields, -1, 0)
        self.gain = np.array(WEIGHTS)[kind] * length
        self.gain_said = np.array(WEIGHTS)[kind] * words
        self.cover = self.mask(start, length)
        self.cover_said = self.mask(said, words)

    def mask(self, start: Ints, length: Ints) -> NDArray[Any]:
        """Bits of the words [start, start + length)."""
        ones = np.array([(1 << n) - 1 for n in range(int(length.max()) + 1)], self.bits)
        bits: NDArray[Any] = ones[length] << start.astype(self.bits)
        return bits

    def start(self, certain: NDArray[np.int64]) -> _Beam:
        """Nothing is matched but what is certain, whose words are taken."""
        sure = (certain >= 0)[..., None] & (np.arange(self.known.shape[2]) == 0)
        nothing = np.zeros((self.p, 1), np.int64)
        taken = [
            np.bitwise_or.reduce(np.where(sure, cover, np.zeros(1, self.bits)[0]).reshape(self.p, -1), axis=1)[:, None]
            for cover in (self.cover, self.cover_said)
        ]
        return _Beam(
            alive=np.ones((self.p, 1), bool),
            weight=nothing,
            weight_said=nothing,
            chunks=nothing,
            distance=nothing,
            next=nothing,
            end=nothing - 1,
            used=taken[0],
            used_said=taken[1],
            chosen=certain[:, None].astype(np.int16),
        )

    def grow(self, beam: _Beam, j: int) -> _Beam:
        """What each partial alignment becomes at word j: with each of its matches, and without."""
        most = int(self.known[:, j].sum(1).max())
        p, w = beam.alive.shape
        bit = 1 << j if self.bits is object else np.uint64(1 << j)
        taken = (beam.used & bit) != 0
        inside = taken & (j < beam.next)
        sure = (
            taken
            & ~inside
            & (np.take_along_axis(beam.chosen, beam.next[..., None].clip(max=self.j - 1), 2)[..., 0] >= 0)
        )
        free = beam.alive & ~taken
        fits = free[..., None] & self.known[:, None, j, :most]
        fits &= (beam.used[..., None] & self.cover[:, None, j, :most]) == 0
        fits &= (beam.used_said[..., None] & self.cover_said[:, None, j, :most]) == 0

        # with a match: (P, W, M); the certain one of a taken word is handled like one of its own
        start, length, said, words, _ = np.moveaxis(self.fields[:, None, j, :most], -1, 0)
        apart = np.abs(start - said) * fits
        before = np.cumsum(apart, axis=2) - apart  # the distances of the matches that were passed over
        with_match = self._taken(beam, j, most)
        with_match["distance"] = beam.distance[..., None] + before
        chosen = np.repeat(beam.chosen[:, :, None], most, 2)
        chosen[..., j] = np.arange(most)
        with_match["chosen"] = chosen
        with_match["alive"] = fits

        # without: a chunk ends, or a certain match is counted, or a longer match goes on
        closes = free & (beam.end != -1)
        alone = {name: value.copy() for name, value in beam.arrays()}
        alone["chunks"] += closes
        alone["end"][free] = -1
        alone["next"] += free
        alone["distance"] += apart.sum(2) * free
        alone["alive"] = beam.alive & (free | inside | sure)
        if sure.any():
            counted = {name: value[..., 0] for name, value in self._taken(beam, j, 1).items()}
            counted["distance"] = beam.distance + np.abs(start - said)[..., 0]
            for name, value in counted.items():
                if name not in ("used", "used_said"):
                    alone[name] = np.where(sure, value, alone[name])
        joined = {}
        for name, value in alone.items():
            both = np.concatenate([with_match[name], value[:, :, None]], axis=2)
            joined[name] = both.reshape(p, w * (most + 1), *both.shape[3:])
        return _Beam(**joined)

    def _taken(self, beam: _Beam, j: int, most: int) -> dict[str, NDArray[Any]]:
        """The fields of each partial alignment after it took each of the first `most` matches of word j: (P, W, M)."""
        start, length, said, words, _ = np.moveaxis(self.fields[:, None, j, :most], -1, 0)
        shape = (*beam.alive.shape, most)
        breaks = (beam.end[..., None] != -1) & (beam.end[..., None] != said)
        return {
            "weight": (beam.weight[..., None] + self.gain[:, None, j, :most]).astype(np.int64),
            "weight_said": (beam.weight_said[..., None] + self.gain_said[:, None, j, :most]).astype(np.int64),
            "chunks": beam.chunks[..., None] + breaks,
            "next": np.broadcast_to(start + length, shape),
            "end": np.broadcast_to(said + words, shape),
            "used": beam.used[..., None] | self.cover[:, None, j, :most],
            "used_said": beam.used_said[..., None] | self.cover_said[:, None, j, :most],
        }
