"""N-grams as integers, so that counting is sorting.

A word is a number; an n-gram is the number of its first n - 1 words, shifted, plus its last word, and is numbered in
turn by its rank in a sorted table. No hashing: equal numbers mean equal words.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # else whoever asks for a reward would make the tokenizer's rules
    from groundling.text.ptb import Pieces

Ints = NDArray[np.int64]
Small = NDArray[np.signedinteger[Any]]  # 32 bits where many are kept
Words = Sequence[str]

ORDERS = 4  # every caption metric here counts n-grams of 1 to 4 words
SHIFT, ORDER_SHIFT = 32, 30  # an n-gram's number has 30 bits, its order 2
LOW = (1 << SHIFT) - 1
SMALL = 1 << 16  # keys below are looked up in an array


@dataclass(frozen=True)
class Sentences:
    """Sentences of word numbers, end to end."""

    words: Ints  # all words of all sentences
    lengths: Ints  # words in each sentence


class Numbers(dict[str, int]):
    """Words and their numbers; a word that is new gets the next one."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number

    def read(self, sentences: Iterable[Words]) -> Sentences:
        words, lengths = array("q"), array("q")
        for sentence in sentences:
            words.extend(map(self.__getitem__, sentence))
            lengths.append(len(sentence))
        return Sentences(np.array(words, np.int64), np.array(lengths, np.int64))

    def read_pieces(self, pieces: Pieces) -> Sentences:
        """The same of texts in pieces: each distinct piece is split once."""
        words = [piece.split() for piece in pieces.distinct]
        count = np.array([*map(len, words)], np.int64)
        numbers = np.fromiter(map(self.__getitem__, chain.from_iterable(words)), np.int64, int(count.sum()))
        here = count[pieces.number]
        before = np.cumsum(here)[pieces.number == 0]  # words up to the end of each text
        return Sentences(numbers[ranges((np.cumsum(count) - count)[pieces.number], here)], np.diff(before, prepend=0))


class Entries(NamedTuple):
    """The n-grams of one order in the sentences of a corpus, n-gram by n-gram, those of one by sentence.

    The sentences are those of one image after those of another, its hypothesis first. An n-gram that is in the
    hypothesis and in a reference of an image makes a pair of entries: (hypothesis[i], other[i]).
    """

    gram: Small  # ascending from 0
    sentence: Small
    times: Small  # of the n-gram in the sentence
    hypothesis: Small
    other: Small
    images: Ints  # with a reference that has it, of each n-gram
    key: Ints  # of each n-gram: (number of its first n - 1 words << 32) + its last word


@dataclass(frozen=True)
class Corpus:
    """The caption of each image, and its references."""

    hypotheses: Sentences  # one for each image
    references: Sentences  # image by image
    per_image: Ints  # references of each image, at least one

    @staticmethod
    def of(hypotheses: Iterable[Words], references: Iterable[Iterable[Words]], numbers: Numbers) -> Corpus:
        sentences, per_image = numbers.read(hypotheses), array("q")

        def flat() -> Iterator[Words]:
            for refs in references:
                per_image.append(0)
                for ref in refs:
                    per_image[-1] += 1
                    yield ref

        known = numbers.read(flat())
        if len(sentences.lengths) != len(per_image):
            raise ValueError(f"{len(sentences.lengths)} hypotheses for {len(per_image)} lists of references")
        if 0 in per_image:
            raise ValueError(f"image {per_image.index(0)} has no reference")
        return Corpus(sentences, known, np.array(per_image, np.int64))

    def __len__(self) -> int:
        return len(self.per_image)

    @property
    def image(self) -> Ints:
        """The image of each reference."""
        return np.repeat(np.arange(len(self)), self.per_image)

    @cached_property
    def first(self) -> Ints:
        """Where in `sentences` the hypothesis of each image is; its references follow."""
        return np.asarray(np.cumsum(self.per_image + 1) - self.per_image - 1)

    @cached_property
    def sentences(self) -> Sentences:
        """All sentences, image by image."""
        source = np.empty(len(self) + len(self.image), np.int64)  # in the arrays of hypotheses, then of references
        mine = np.zeros(len(source), bool)
        mine[self.first] = True
        source[mine], source[~mine] = np.arange(len(self)), len(self) + np.arange(len(self.image))
        lengths = np.concatenate([self.hypotheses.lengths, self.references.lengths])
        words = np.concatenate([self.hypotheses.words, self.references.words])
        return Sentences(words[ranges((np.cumsum(lengths) - lengths)[source], lengths[source])], lengths[source])

    @cached_property
    def by_word(self) -> Ints:
        """The places of all words in `sentences`, sorted by word, those of one word as they come."""
        return in_turn(self.sentences.words)

    @cached_property
    def entries(self) -> list[Entries]:
        """Of each order."""
        return list(_entries(self))


def _entries(corpus: Corpus) -> Iterator[Entries]:
    """Entries of orders 1, 2, ...

    The places where n-grams begin are sorted by last word, which `by_word` has done, then by what stands before it:
    equal n-grams are then next to each other, sentence by sentence. An n-gram of which a part occurs once occurs once
    itself, and is not sorted.
    """
    lengths, words = corpus.sentences.lengths, corpus.sentences.words.astype(np.uint32)
    image = np.repeat(np.arange(len(corpus), dtype=np.int32), corpus.per_image + 1)
    is_hypothesis = np.zeros(len(lengths), bool)
    is_hypothesis[corpus.first] = True
    owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    left = np.cumsum(lengths)[owner] - np.arange(len(words))  # words from each to the end of its sentence
    number, again = np.zeros(len(words), np.int32), np.ones(len(words), bool)  # of the n-gram that begins there
    place, once = corpus.by_word, np.zeros(0, np.int64)
    for n in range(1, ORDERS + 1):
        if n > 1:
            begins = left >= n
            again[:-1] &= again[1:]
            again &= begins
            once = np.flatnonzero(begins > again)
            by_last = corpus.by_word[corpus.by_word >= n - 1] - (n - 1)
            by_last = by_last[again[by_last]]
            place = by_last[in_turn(number[by_last])]
        before, last = number[place], words[place + n - 1]
        new = differ(before) | differ(last)
        starts = np.flatnonzero(new)
        times = np.diff(starts, append=len(place))
        gram = np.repeat(np.arange(len(starts), dtype=np.int32), times)
        key = _key(np.append(before[starts], number[once]), np.append(last[starts], words[once + n - 1]))
        number, again = np.zeros_like(number), np.zeros_like(again)
        number[place], again[place] = gram, np.repeat(times > 1, times)
        number[once] = np.arange(len(starts), len(key))
        yield _counted(gram, new, owner[place], owner[once], image, is_hypothesis, key)


def _key(before: Small, last: NDArray[np.uint32]) -> Ints:
    return np.asarray((before.astype(np.int64) << SHIFT) + last)


def _counted(
    gram: Small,
    new: NDArray[np.bool_],
    sentence: Small,
    once: Small,
    image: Small,
    is_hypothesis: NDArray[np.bool_],
    key: Ints,
) -> Entries:
    """Entries of n-grams that are sorted, `new` where one begins, each with its sentence; behind them those that occur
    `once`, by sentence."""
    starts = np.flatnonzero(new | differ(sentence))
    times = np.diff(starts, append=len(gram))
    gram, new, sentence = gram[starts], new[starts], sentence[starts]
    start = np.flatnonzero(new | differ(image[sentence]))
    several = np.diff(start, append=len(gram))
    mine = is_hypothesis[sentence[start]]
    images = np.bincount(gram[start], several > mine, len(key)).astype(np.int64)
    images[len(key) - len(once) :] = ~is_hypothesis[once]
    start, several = start[mine], several[mine] - 1
    return Entries(
        gram=np.append(gram, np.arange(len(key) - len(once), len(key), dtype=np.int32)),
        sentence=np.append(sentence, once),
        times=np.append(times.astype(np.int32), np.ones(len(once), np.int32)),
        hypothesis=np.repeat(start, several).astype(np.int32),
        other=ranges(start + 1, several).astype(np.int32),
        images=images,
        key=key,
    )


def in_turn(keys: NDArray[np.signedinteger[Any]]) -> Ints:
    """The order that sorts keys of 0 and more, equal ones as they come: 16 bits after 16, which NumPy counts instead of
    comparing them."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(16, int(keys.max(initial=0)).bit_length(), 16):
        order = order[np.argsort((keys >> shift).astype(np.uint16)[order], kind="stable")]
    return order


class Grams(NamedTuple):
    """Every n-gram of one order: the sentence it is in and its number; and the keys that no table had, sorted."""

    sentence: Ints
    number: Ints
    new: Ints


def grams(sentences: Sentences, tables: Sequence[Sequence[Ints]]) -> Iterator[Grams]:
    """The n-grams of orders 1, 2, ...; `tables[n - 1]` are the sorted keys of order n known before.

    The key of a word is the word; that of an n-gram is (number of its first n - 1 words << 32) + its last word.
    """
    lengths, words = sentences.lengths, sentences.words
    owner = np.repeat(np.arange(len(lengths)), lengths)
    begin = np.arange(len(words))  # where the n-grams begin
    left = np.cumsum(lengths)[owner] - begin  # words from there to the end of the sentence
    number, new = rank(words, tables[0])
    yield Grams(owner, number, new)
    for n in range(2, len(tables) + 1):
        goes_on = np.flatnonzero(left[begin] >= n)
        begin = begin[goes_on]
        number, new = rank((number[goes_on] << SHIFT) + words[begin + n - 1], tables[n - 1])
        yield Grams(owner[begin], number, new)


def rank(keys: Ints, tables: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The place of each key in sorted tables laid end to end, and the keys found in none, sorted, numbered behind."""
    if not len(keys) or keys.max() < max(SMALL, len(keys)):
        return _looked_up(keys, tables)
    order = np.argsort(keys)
    in_order = keys[order]
    ends = run_ends(in_order)
    unique = in_order[ends[:-1]]
    number, offset = np.full(len(unique), -1), 0
    for table in tables:
        stop = int(np.searchsorted(unique, table[-1:], "right").sum())  # what is greater than its last is not in it
        index = np.searchsorted(table, unique[:stop])
        known = np.flatnonzero(table[index] == unique[:stop])
        number[known] = offset + index[known]
        offset += len(table)
    new = np.flatnonzero(number < 0)
    number[new] = offset + np.arange(len(new))
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.repeat(number, np.diff(ends))
    return numbers, unique[new]


def _looked_up(keys: Ints, tables: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The same of small keys, which words are: an array has the number of each, and nothing is sorted."""
    number, offset = np.full(int(keys.max(initial=-1)) + 1, -1), 0
    for table in tables:
        inside = table[: np.searchsorted(table, len(number))]
        number[inside] = np.arange(offset, offset + len(inside))
        offset += len(table)
    new = np.flatnonzero(np.bincount(keys[number[keys] < 0]))
    number[new] = np.arange(offset, offset + len(new))
    return number[keys], new


class Bag(NamedTuple):
    """The distinct n-grams of each sentence with their counts, sorted by sentence, then by n-gram."""

    sentence: Ints
    gram: Ints  # (order << 30) + number
    order: Ints  # 0 for single words, 1 for pairs, ...
    number: Ints
    times: Ints


def bag(orders: Sequence[Grams]) -> Bag:
    """The n-grams of all orders, counted."""
    sentence = np.concatenate([order.sentence for order in orders])
    gram = np.concatenate([order.number + (n << ORDER_SHIFT) for n, order in enumerate(orders)])
    keys, times = distinct((sentence << SHIFT) + gram)
    gram = keys & LOW
    return Bag(keys >> SHIFT, gram, gram >> ORDER_SHIFT, gram & ((1 << ORDER_SHIFT) - 1), times)


def distinct(keys: Ints) -> tuple[Ints, Ints]:
    """The distinct keys, sorted, and how often each occurs. (By sorting: twice as fast as np.unique of NumPy 2.3.)"""
    keys = np.sort(keys)
    ends = run_ends(keys)
    return keys[ends[:-1]], np.diff(ends)


def differ(keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each key is another than the one before it."""
    return np.append(True, keys[1:] != keys[:-1]) if len(keys) else np.zeros(0, bool)


def run_ends(keys: Small) -> Ints:
    """Where the runs of equal keys begin in a sorted array, and where the last one ends."""
    return np.append(np.flatnonzero(differ(keys)), len(keys))


def ranges(start: Ints, length: Ints) -> Ints:
    """start[0], start[0] + 1, ... (length[0] of them), then start[1], ... : many slices as one index."""
    before = np.cumsum(length) - length
    return np.asarray(np.arange(int(length.sum())) + np.repeat(start - before, length))
