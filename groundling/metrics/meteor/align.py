"""How METEOR aligns a caption with a reference: a beam search for the best set of matches.

A word takes part in one match at most. The search goes through the reference from left to right with 40 partial
alignments, preferring, in this order: more words matched, by weight; fewer chunks; less distance. Ties are decided by
order, so order and three peculiarities of the program that the field quotes are kept: the weights are not those of the
score, exact words count 1 and all others 1/2; they are rounded down at each match (a stem counts 0, a paraphrase of
three words 1); and the distance of a match is charged to the alignments that do without it.

Many pairs of sentences are searched at once. What an alignment is worth is one integer, smaller is better:

    cost = -weight 2^48 + chunks 2^36 + distance
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.meteor.lexicon import EXACT
from groundling.metrics.meteor.matches import Match

BEAM = 40
TOGETHER = 128  # pairs searched at once, if
CELLS = 1 << 21  # there are no more than so many next steps to weigh
LONGEST = 2000  # words of a sentence: the parts of the cost have room for them
WEIGHT, CHUNK, DEAD = 48, 36, 1 << 62

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]
Matches = list[list[Match]]  # those that begin at each word of the reference


def align(pairs: Sequence[Matches]) -> list[list[Match]]:
    """The matches of the best alignment of each pair, in the order of the reference."""
    chosen: list[list[Match]] = [[] for _ in pairs]
    searched = []
    for number, matches in enumerate(pairs):
        certain = _certain(matches)
        if all(sure or not here for sure, here in zip(certain, matches, strict=True)):
            chosen[number] = [here[0] for here in matches if here]
        else:
            searched.append((number, certain))
    searched.sort(key=lambda item: (len(item[1]) // 4, _open(pairs[item[0]], item[1])))  # of a kind together
    for block in _blocks(searched, pairs):
        best = _search([pairs[number] for number, _ in block], [certain for _, certain in block])
        for (number, _), indices in zip(block, best.tolist(), strict=True):
            chosen[number] = [here[k] for here, k in zip(pairs[number], indices, strict=False) if k >= 0]
    return chosen


def chunks(matches: Iterable[Match]) -> int:
    """Runs of matches that are next to each other, in the same order, in caption and reference."""
    count, ends = 0, (-1, -1)
    for start, length, offset, words, _ in matches:
        count += (start, offset) != ends
        ends = start + length, offset + words
    return count


def _certain(matches: Matches) -> list[bool]:
    """For each word of the reference: has it one match, without rivals?"""
    of_caption: dict[int, int] = {}
    of_reference = [0] * len(matches)
    for here in matches:
        for start, length, offset, words, _ in here:
            for i in range(offset, offset + words):
                of_caption[i] = of_caption.get(i, 0) + 1
            for j in range(start, start + length):
                of_reference[j] += 1
    return [
        len(here) == 1
        and all(of_reference[j] == 1 for j in range(here[0].start, here[0].start + here[0].length))
        and all(of_caption[i] == 1 for i in range(here[0].offset, here[0].offset + here[0].words))
        for here in matches
    ]


def _open(matches: Matches, certain: list[bool]) -> int:
    """Matches with rivals: how much there is to search."""
    return sum(len(here) for here, sure in zip(matches, certain, strict=True) if not sure)


def _blocks(searched: list[tuple[int, list[bool]]], pairs: Sequence[Matches]) -> Iterator[list[tuple[int, list[bool]]]]:
    block: list[tuple[int, list[bool]]] = []
    most = 0
    for item in searched:
        mine = max(map(len, pairs[item[0]]))
        if block and (len(block) == TOGETHER or (len(block) + 1) * BEAM * max(most, mine) > CELLS):
            yield block
            block, most = [], 0
        block.append(item)
        most = max(most, mine)
    if block:
        yield block


# ---------------------------------------------------------------- the search


class _Beam(NamedTuple):
    """Partial alignments of P pairs, W each, best first."""

    cost: Ints  # (P, W)
    after: Ints  # the first word of the reference behind the last match
    end: Ints  # where the last match ends in the caption; -1 if the word before has none
    used: list[Bits]  # words of the caption, 64 bits at a time


def _search(pairs: Sequence[Matches], certain: Sequence[list[bool]]) -> Ints:
    """(P, J): the match of each word of the reference in the best alignment, or -1."""
    table = _Table(pairs, certain)
    n, length, _ = table.known.shape
    nothing = np.zeros((n, 1), np.int64)
    beam = _Beam(nothing, nothing, nothing - 1, [np.zeros((n, 1), np.uint64) for _ in table.cover])
    trail = []
    for j in range(length):
        steps = table.steps(beam, j)
        flat = steps.reshape(n, -1)
        order = np.argsort(flat, axis=1, kind="stable")[:, :BEAM]
        cost = np.take_along_axis(flat, order, axis=1)
        width = max(1, int((cost < DEAD).sum(1).max()))
        parent, match = np.divmod(order[:, :width], steps.shape[2])
        match[match == steps.shape[2] - 1] = -1
        beam = table.follow(beam, j, parent, match)._replace(cost=cost[:, :width])
        trail.append((parent, match))
    return _trace(trail, np.argmin(beam.cost + ((beam.end != -1).astype(np.int64) << CHUNK), axis=1))


def _trace(trail: list[tuple[Ints, Ints]], best: Ints) -> Ints:
    """Back along the parents from the best alignments: the match that each took at each word."""
    chosen, rows = [], np.arange(len(best))
    for parent, match in reversed(trail):
        chosen.append(match[rows, best])
        best = parent[rows, best]
    return np.stack(chosen[::-1], axis=1)


class _Table:
    """The matches of P pairs as arrays (P, J, M); J is the longest reference, M the most matches of a word."""

    def __init__(self, pairs: Sequence[Matches], certain: Sequence[list[bool]]) -> None:
        rows = [
            (p, j, k, *match)
            for p, matches in enumerate(pairs)
            for j, here in enumerate(matches)
            for k, match in enumerate(here)
        ]
        p, j, k, start, length, offset, words, kind = np.array(rows).T
        shape = len(pairs), max(map(len, pairs)), int(k.max()) + 1

        def table(values: NDArray[Any]) -> NDArray[Any]:
            array = np.zeros(shape, values.dtype)
            array[p, j, k] = values
            return array

        self.known = table(np.ones(len(rows), bool))
        self.most = self.known.any(0).sum(1).tolist()  # matches of each word
        self.offset, self.apart = table(offset), table(np.abs(start - offset))
        self.after, self.end = table(start + length), table(offset + words)
        self.gain = table(np.where(kind == EXACT, length + words, length // 2 + words // 2) << WEIGHT)
        firsts = range(0, int((offset + words).max()), 64)
        self.cover = [table(_bits(offset - first, words)) for first in firsts]  # words of the caption
        self.sure = np.zeros(shape[:2], bool)  # has no rivals, so that its words need not be remembered as used
        for row, mine in zip(self.sure, certain, strict=True):
            row[: len(mine)] = mine

    def steps(self, beam: _Beam, j: int) -> Ints:
        """(P, W, M + 1): what each partial alignment costs with each match of word j, and without one."""
        known, offset, apart, gain = (
            a[:, None, j, : self.most[j]] for a in (self.known, self.offset, self.apart, self.gain)
        )
        alive, begun, inside = beam.cost < DEAD, beam.end != -1, beam.after > j
        sure = self.sure[:, j, None]
        fits = known & (alive & ~inside)[..., None]
        for used, cover in zip(beam.used, self.cover, strict=True):
            fits &= (used[..., None] & cover[:, None, j, : self.most[j]]) == 0
        passed = np.cumsum(apart * fits, axis=2)  # distances, of each match and those before it
        breaks = (begun[..., None] & (beam.end[..., None] != offset)).astype(np.int64) << CHUNK
        steps = np.full((*beam.cost.shape, self.most[j] + 1), DEAD)
        own = np.where(sure[..., None], 0, apart)  # only a certain match is charged its own distance
        np.copyto(steps[..., :-1], beam.cost[..., None] - gain + breaks + passed - own, where=fits)
        closes = (begun & ~inside).astype(np.int64) << CHUNK
        without = beam.cost + closes + (passed[..., -1] if self.most[j] else 0)
        np.copyto(steps[..., -1], without, where=alive & ~(sure & ~inside))
        return steps

    def follow(self, beam: _Beam, j: int, parent: Ints, match: Ints) -> _Beam:
        """Where steps lead. Without a match the chunk ends, unless a longer match goes on."""
        rows, taken = np.arange(len(parent))[:, None], match >= 0
        after, end = beam.after[rows, parent], beam.end[rows, parent]
        end = np.where(taken, self.end[rows, j, match], np.where(after > j, end, -1))
        after = np.where(taken, self.after[rows, j, match], np.maximum(after, j + 1))
        used = [
            bits[rows, parent] | np.where(taken, cover[rows, j, match], np.uint64(0))
            for bits, cover in zip(beam.used, self.cover, strict=True)
        ]
        return _Beam(beam.cost, after, end, used)


def _bits(start: Ints, length: Ints) -> Bits:
    """Bits [start, start + length), as far as they are among 64."""
    bits = np.zeros(len(start), np.uint64)
    for offset in range(int(length.max())):
        bit = start + offset
        there = (offset < length) & (bit >= 0) & (bit < 64)
        bits |= np.where(there, np.uint64(1) << (bit % 64).astype(np.uint64), np.uint64(0))
    return bits
