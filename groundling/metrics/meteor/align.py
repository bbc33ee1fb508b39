"""How METEOR aligns a caption with a reference: a beam search for the best set of matches.

A word takes part in one match at most. The search goes through the reference from left to right with 40 partial
alignments, preferring, in this order: more words matched, by weight; fewer chunks; less distance. Ties are decided by
order, so order and three peculiarities of the program that the field quotes are kept: the weights are not those of the
score, exact words count 1 and all others 1/2; they are rounded down at each match (a stem counts 0, a paraphrase of
three words 1); and the distance of a match is charged to the alignments that do without it.

Many pairs of sentences are searched at once. What an alignment is worth is one integer, smaller is better:

    cost = -weight 2^48 + chunks 2^36 + distance

The search stops only at words where there is something to choose: those that a match with rivals covers. The words
between two stops are a run. All alignments take the same matches there (those without rivals) and leave it alike, so a
run adds the same to the cost of each, but for the chunk that may end at its first word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.meteor.lexicon import EXACT
from groundling.metrics.meteor.matches import Flags, Ints, Matches, expanded

BEAM = 40
CELLS = 1 << 16  # next steps weighed at once, at most: they stay in the processor's cache
LONGEST = 2000  # words of a sentence: the parts of the cost have room for them
WEIGHT, CHUNK, DEAD = 48, 36, 1 << 62

Bits = NDArray[np.uint64]


def align(matches: Matches, captions: Ints, references: Ints) -> Flags:
    """Which matches are those of the best alignments. Given the number of words of each pair's two sentences."""
    certain = _certain(matches, captions, references)
    chosen: Flags = certain.copy()
    plan = _Plan(matches, certain, references)
    for pairs in plan.groups():
        found = _search(plan.tables(pairs))
        chosen[found[found >= 0]] = True
    return chosen


def chunks(matches: Matches, pairs: int) -> Ints:
    """Of each pair: runs of matches that are next to each other, in the same order, in caption and reference."""
    follows = (
        (matches.pair[1:] == matches.pair[:-1])
        & (matches.start[1:] == (matches.start + matches.length)[:-1])
        & (matches.offset[1:] == (matches.offset + matches.words)[:-1])
    )
    begins = np.append(True, ~follows)[: len(matches.pair)]
    return np.bincount(matches.pair[begins], minlength=pairs)


def _certain(matches: Matches, captions: Ints, references: Ints) -> Flags:
    """Has a match no rivals, for any of its words?"""
    certain = np.ones(len(matches.pair), bool)
    for lengths, start, count in (
        (references, matches.start, matches.length),
        (captions, matches.offset, matches.words),
    ):
        firsts = np.cumsum(lengths) - lengths
        match, word = expanded(firsts[matches.pair] + start, count)
        certain[match[np.bincount(word)[word] > 1]] = False
    return certain


# ---------------------------------------------------------------- stops and runs


class _Tables(NamedTuple):
    """P pairs of S stops, each with up to M matches."""

    match: Ints  # (P, S, M): numbers of matches, -1 where there are fewer
    place: Ints  # (P, S): the word of the reference
    offset: Ints  # (P, S, M), as are those below
    end: Ints
    after: Ints  # the first word of the reference behind the match
    apart: Ints
    gain: Ints
    cover: list[Bits]  # words of the caption, 64 bits at a time
    ran: Flags  # (P, S + 1): is there a run before this stop, and in the end?
    enters: Ints  # (P, S + 1): where the match of its first word begins in the caption; -1: it has none
    leaves: Ints  # (P, S + 1): where the match of its last word ends in the caption; -1: it has none
    adds: Ints  # (P, S + 1): what it costs, but for the end of a chunk at its first word


class _Plan:
    """The stops and runs of all pairs: their words laid end to end."""

    def __init__(self, matches: Matches, certain: Flags, lengths: Ints) -> None:
        self.matches, self.firsts = matches, np.cumsum(lengths) - lengths
        self.at = self.firsts[matches.pair] + matches.start
        total = int(lengths.sum())
        self.gain = np.where(
            matches.kind == EXACT, matches.length + matches.words, matches.length // 2 + matches.words // 2
        )
        self.apart = np.abs(matches.start - matches.offset)
        stop = np.zeros(total, bool)
        rivals = np.flatnonzero(~certain)
        stop[expanded(self.at[rivals], matches.length[rivals])[1]] = True
        self.pair = np.repeat(np.arange(len(lengths)), lengths)
        self.stops = np.flatnonzero(stop)
        self.count = np.bincount(self.pair[self.stops], minlength=len(lengths))
        self.first_stop = np.cumsum(self.count) - self.count
        self.first_match = np.searchsorted(self.at, self.stops)
        self.choices = np.searchsorted(self.at, self.stops, "right") - self.first_match
        self._run(certain, stop, total)

    def _run(self, certain: Flags, stop: Flags, total: int) -> None:
        """What each run does to an alignment that comes to it."""
        sure = np.flatnonzero(certain)
        at, offset, end = self.at[sure], self.matches.offset[sure], (self.matches.offset + self.matches.words)[sure]
        enters, leaves, adds = np.full(total, -1), np.full(total, -1), np.zeros(total, np.int64)
        enters[at], adds[at] = offset, self.apart[sure] - (self.gain[sure] << WEIGHT)
        match, word = expanded(at, self.matches.length[sure])
        leaves[word] = end[match]
        inside = np.zeros(total, bool)  # a match that began before goes on
        inside[word] = True
        inside[at] = False
        starts = np.append(True, self.pair[1:] != self.pair[:-1])[:total]
        first = ~stop & (starts | np.append(True, stop[:-1])[:total])  # words of runs
        before = np.append(-1, leaves[:-1])[:total]
        breaks = (before != -1) & (before != enters) & ~first & ~inside
        words = np.flatnonzero(~stop)
        adds += breaks.astype(np.int64) << CHUNK
        runs = np.flatnonzero(first)
        last = np.append(runs, total)[1:] - 1
        ended = np.searchsorted(words, last, "right") - 1  # the last word of a run: others up to the next are stops
        self.enters, self.leaves = enters[runs], leaves[words[ended]]
        self.adds = np.add.reduceat(adds[words], np.searchsorted(words, runs)) if len(runs) else adds[:0]
        self.run_pair = self.pair[runs]
        self.run_slot = np.searchsorted(self.stops, runs) - self.first_stop[self.run_pair]
        self.runs = len(runs)

    def groups(self) -> Iterator[Ints]:
        """Pairs with equally many stops, so many together that their next steps are no more than CELLS."""
        most = np.zeros(len(self.count), np.int64)
        np.maximum.at(most, self.pair[self.stops], self.choices)
        order = np.lexsort((most, self.count))
        order = order[self.count[order] > 0]
        while len(order):
            alike = order[: np.searchsorted(self.count[order], self.count[order[0]], "right")]
            cells = BEAM * np.arange(1, len(alike) + 1) * (1 + most[alike])
            size = max(1, int(np.searchsorted(cells, CELLS, "right")))
            yield alike[:size]
            order = order[size:]

    def tables(self, pairs: Ints) -> _Tables:
        """Those of pairs with equally many stops."""
        stops = self.first_stop[pairs, None] + np.arange(self.count[pairs[0]])
        each = np.arange(max(1, self.choices[stops].max()))
        known = each < self.choices[stops][..., None]
        match = np.where(known, self.first_match[stops][..., None] + each, 0)
        offset, end = self.matches.offset[match], (self.matches.offset + self.matches.words)[match]
        cover = [_bits(offset - first, end - first) for first in range(0, int(end.max()), 64)]
        run = np.full((len(pairs), stops.shape[1] + 1), self.runs)
        row = np.full(len(self.count), -1)
        row[pairs] = np.arange(len(pairs))
        mine = np.flatnonzero(row[self.run_pair] >= 0)
        run[row[self.run_pair[mine]], self.run_slot[mine]] = mine
        enters, leaves, adds = (np.append(column, 0)[run] for column in (self.enters, self.leaves, self.adds))
        return _Tables(
            np.where(known, match, -1),
            self.stops[stops] - self.firsts[pairs, None],
            offset,
            end,
            (self.matches.start + self.matches.length)[match],
            self.apart[match],
            self.gain[match] << WEIGHT,
            cover,
            run < self.runs,
            enters,
            leaves,
            adds,
        )


def _bits(start: Ints, end: Ints) -> Bits:
    """Bits [start, end), as far as they are among 64."""
    low, high = (x.clip(0, 64).astype(np.uint64) for x in (start, end))
    below = [np.where(x < 64, (np.uint64(1) << (x % np.uint64(64))) - np.uint64(1), ~np.uint64(0)) for x in (low, high)]
    bits: Bits = below[1] & ~below[0]
    return bits


# ---------------------------------------------------------------- the search


class _Beam(NamedTuple):
    """Partial alignments of P pairs, W each, best first."""

    cost: Ints  # (P, W)
    after: Ints  # the first word of the reference behind the last match
    end: Ints  # where the last match ends in the caption; -1 if the word before has none
    used: list[Bits]  # words of the caption that matches with rivals have taken, 64 bits at a time


def _search(tables: _Tables) -> Ints:
    """(P, S): the match that the best alignment takes at each stop, or -1."""
    n, stops, _ = tables.match.shape
    nothing = np.zeros((n, 1), np.int64)
    beam = _Beam(nothing, nothing, nothing - 1, [np.zeros((n, 1), np.uint64) for _ in tables.cover])
    trail = []
    for stop in range(stops):
        beam = _run(tables, beam, stop)
        order = np.argsort(beam.cost, axis=1, kind="stable")
        beam = beam._replace(cost=_chosen(beam.cost, order), used=[_chosen(bits, order) for bits in beam.used])
        steps = _steps(tables, beam, stop)
        flat = steps.reshape(n, -1)
        best = np.argsort(flat, axis=1, kind="stable")[:, :BEAM]
        cost = _chosen(flat, best)
        width = max(1, int((cost < DEAD).sum(1).max()))
        parent, choice = np.divmod(best[:, :width], steps.shape[2])
        beam = _follow(tables, beam, stop, parent, choice)._replace(cost=cost[:, :width])
        trail.append((_chosen(order, parent), choice))
    beam = _run(tables, beam, stops)
    return _trace(tables, trail, np.argmin(beam.cost + _chunk(beam.end != -1), axis=1))


def _trace(tables: _Tables, trail: list[tuple[Ints, Ints]], best: Ints) -> Ints:
    """Back along the parents from the best alignments: the match that each took at each stop."""
    rows, taken = np.arange(len(best)), np.full(tables.match.shape[:2], -1)
    none = tables.match.shape[2]
    for stop, (parent, choice) in reversed(list(enumerate(trail))):
        last = choice[rows, best]
        taken[:, stop] = np.where(last < none, tables.match[rows, stop, last.clip(max=none - 1)], -1)
        best = parent[rows, best]
    return taken


def _run(tables: _Tables, beam: _Beam, stop: int) -> _Beam:
    """Through the run before a stop, where there is one."""
    ran, enters, leaves, adds = (x[:, stop, None] for x in (tables.ran, tables.enters, tables.leaves, tables.adds))
    breaks = _chunk((beam.end != -1) & (beam.end != enters))
    cost = np.where(ran & (beam.cost < DEAD), beam.cost + adds + breaks, beam.cost)
    return beam._replace(cost=cost, end=np.where(ran, leaves, beam.end))


def _steps(tables: _Tables, beam: _Beam, stop: int) -> Ints:
    """(P, W, M + 1): what each partial alignment costs with each match of a stop, and without one."""
    match, offset, apart, gain = (x[:, None, stop] for x in (tables.match, tables.offset, tables.apart, tables.gain))
    alive, begun, inside = beam.cost < DEAD, beam.end != -1, beam.after > tables.place[:, stop, None]
    fits = (match >= 0) & (alive & ~inside)[..., None]
    for used, cover in zip(beam.used, tables.cover, strict=True):
        fits &= (used[..., None] & cover[:, None, stop]) == 0
    passed = apart * fits  # distances, of each match and those before it
    if passed.shape[2] > 1:
        passed = np.cumsum(passed, axis=2)
    breaks = _chunk(begun[..., None] & (beam.end[..., None] != offset))
    steps = np.full((*beam.cost.shape, match.shape[2] + 1), DEAD)
    np.copyto(steps[..., :-1], beam.cost[..., None] - gain + breaks + passed - apart, where=fits)
    np.copyto(steps[..., -1], beam.cost + _chunk(begun & ~inside) + passed[..., -1], where=alive)
    return steps


def _follow(tables: _Tables, beam: _Beam, stop: int, parent: Ints, choice: Ints) -> _Beam:
    """Where steps lead. Without a match the chunk ends, unless a longer match goes on."""
    taken, place = choice < tables.match.shape[2], tables.place[:, stop, None]
    choice = np.where(taken, choice, 0)
    after, end = _chosen(beam.after, parent), _chosen(beam.end, parent)
    end = np.where(taken, _chosen(tables.end[:, stop], choice), np.where(after > place, end, -1))
    after = np.where(taken, _chosen(tables.after[:, stop], choice), after)
    used = [
        _chosen(bits, parent) | np.where(taken, _chosen(cover[:, stop], choice), np.uint64(0))
        for bits, cover in zip(beam.used, tables.cover, strict=True)
    ]
    return _Beam(beam.cost, after, end, used)


Column = TypeVar("Column", Ints, Bits)


def _chosen(values: Column, order: Ints) -> Column:
    """Of each row, these of its values."""
    rows = np.arange(len(values))[:, None] * values.shape[1]
    chosen: Column = values.reshape(-1)[order + rows]
    return chosen


def _chunk(ends: Flags) -> Ints:
    return ends.astype(np.int64) << CHUNK
