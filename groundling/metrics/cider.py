"""CIDEr: agreement of a caption with the references of its image, n-grams weighted by tf-idf.

Vedantam, Zitnick, Parikh, CVPR 2015, with the constants of the published scorer. For each order n = 1..4 a sentence s
is a vector over its n-grams w,

    g(s)_w = count of w in s * (ln N - ln max(1, df_w)),    df_w = images whose references hold w, of N images;

    CIDEr     10 mean_n mean_r   sum_w h_w r_w           / (|h| |r|)
    CIDEr-D   10 mean_n mean_r   sum_w min(h_w, r_w) r_w / (|h| |r|) * exp(-(L_h - L_r)^2 / (2 * 6^2))

with h = g(hypothesis), r = g(reference), L = number of bigrams. What coco-caption prints as "CIDEr" is CIDEr-D.
N and df come from the references at hand, or from a `DocumentFrequency` made before: with the references of one image
alone every idf is ln 1 - ln 1 = 0 and so is the score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.files import saved
from groundling.metrics import ngrams
from groundling.metrics.ngrams import (
    LOW,
    ORDER_SHIFT,
    ORDERS,
    SHIFT,
    Bag,
    Corpus,
    Entries,
    Ints,
    Numbers,
    Sentences,
    Words,
)

Floats = NDArray[np.float64]

SIGMA = 6.0
MIXER, ROOM = 0x9E3779B97F4A7C15, 4  # of hash tables: keys are multiplied by it; slots for each key
FORMAT = "groundling-df-1"


@dataclass(frozen=True, eq=False)
class DocumentFrequency:
    """In how many images' references each n-gram occurs. `tables` and `counts` are per order, 1 to 4.

    `tables[n - 1]` holds the sorted keys of `ngrams.grams`, a word being its place in `words`.
    """

    words: tuple[str, ...]
    tables: tuple[Ints, ...]
    counts: tuple[Ints, ...]
    images: int

    @staticmethod
    def of(references: Sequence[Sequence[Words]], end: str | None = None) -> DocumentFrequency:
        """Count a corpus: for each image its references, each a sequence of words, with `end` behind the last one."""
        if end is not None:
            references = [[[*ref, end] for ref in refs] for refs in references]
        words = sorted({word for refs in references for ref in refs for word in ref})  # so that no order matters
        numbers = Numbers(zip(words, range(len(words)), strict=True))
        sentences = numbers.read(ref for refs in references for ref in refs)
        image = np.repeat(np.arange(len(references)), [len(refs) for refs in references])
        return DocumentFrequency.of_numbers(sentences, image, len(references), tuple(words))

    @staticmethod
    def of_numbers(sentences: Sentences, image: Ints, images: int, words: tuple[str, ...] = ()) -> DocumentFrequency:
        """Count sentences of which `image[i]` is the image; `words` are those that the numbers stand for."""
        tables, counts = [], []
        for sentence, number, table in ngrams.grams(sentences, [()] * ORDERS):
            pairs, _ = ngrams.distinct((image[sentence] << SHIFT) + number)
            tables.append(table)
            counts.append(np.bincount(pairs & LOW, minlength=len(table)))
        return DocumentFrequency(words, tuple(tables), tuple(counts), images)

    def count(self, words: Words) -> int:
        """In how many images this n-gram was seen; 0 if never."""
        if not 1 <= len(words) <= ORDERS:
            raise ValueError(f"an n-gram here has 1 to {ORDERS} words, got {len(words)}")
        key = index = 0
        for n, word in enumerate(words):
            key = (index << SHIFT) + self.vocabulary.get(word, len(self.words))
            index = int(np.searchsorted(self.tables[n], key))
            if index == len(self.tables[n]) or self.tables[n][index] != key:
                return 0
        return int(self.counts[len(words) - 1][index])

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def idf_of(self, orders: Sequence[Entries]) -> Iterator[Floats]:
        """ln N - ln max(1, df) of the n-grams of each order of a corpus."""
        index = np.zeros(1, np.int64)  # of the n-grams of the order before in its table; -1 where it is not there
        for entries, table, counts in zip(orders, self.tables, self.counts, strict=True):
            before, last = index[entries.key >> SHIFT], entries.key & LOW
            key = np.where(before < 0, -1, (before << SHIFT) + last)
            index = np.searchsorted(table, key)
            known = np.append(table, -2)[index] == key
            df = np.append(counts, 1)[np.where(known, index, -1)]
            index[~known] = -1
            yield np.asarray(np.log(max(self.images, 1)) - np.log(df))

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this table in signatures."""
        content = hashlib.sha256(json.dumps([self.words, self.images]).encode())
        for array in (*self.tables, *self.counts):
            content.update(np.ascontiguousarray(array, "<i8").tobytes())
        return content.hexdigest()[:12]

    def save(self, path: Path | str) -> None:
        """Write a safetensors file: the arrays, and the words as the bytes of one JSON list."""
        from safetensors.numpy import save

        arrays = {"words": np.frombuffer(json.dumps(self.words).encode(), np.uint8)}
        for n in range(ORDERS):
            arrays[f"table{n + 1}"] = np.ascontiguousarray(self.tables[n])
            arrays[f"count{n + 1}"] = np.ascontiguousarray(self.counts[n])
        with saved(Path(path)) as file:
            file.write(save(arrays, {"format": FORMAT, "images": str(self.images)}))

    @staticmethod
    def load(path: Path | str) -> DocumentFrequency:
        """Read and check what `save` wrote; a file that is something else raises DataError."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), "numpy") as file:
                meta = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError, TypeError) as error:
            raise DataError(
                f"{path} is not a document frequency file: {error}; make one with `groundling df`"
            ) from error
        return _checked(str(path), meta, arrays)


def cider(
    hypotheses: Iterable[Words], references: Iterable[Iterable[Words]], df: DocumentFrequency | None = None
) -> Floats:
    """Plain CIDEr of each item, 0 to 10; words already tokenised."""
    numbers = Numbers(df.vocabulary if df else ())
    return score(Corpus.of(hypotheses, references, numbers), df, clipped=False)


def cider_d(
    hypotheses: Iterable[Words], references: Iterable[Iterable[Words]], df: DocumentFrequency | None = None
) -> Floats:
    """CIDEr-D of each item, 0 to 10; words already tokenised."""
    numbers = Numbers(df.vocabulary if df else ())
    return score(Corpus.of(hypotheses, references, numbers), df, clipped=True)


def score(corpus: Corpus, df: DocumentFrequency | None, clipped: bool) -> Floats:
    """CIDEr (or, clipped, CIDEr-D) of each image; the numbers of words begin with those of `df`."""
    lengths, refs = corpus.sentences.lengths, corpus.per_image
    own = np.repeat(corpus.first, refs + 1)  # of each sentence: the hypothesis of its image
    similarity = np.zeros(len(lengths))
    for entries, idf in zip(corpus.entries, df.idf_of(corpus.entries) if df else _idf(corpus), strict=True):
        weight = entries.times * idf[entries.gram]
        norm = np.sqrt(np.bincount(entries.sentence, weight**2, len(lengths)))
        mine, other = weight[entries.hypothesis], weight[entries.other]
        product = (np.minimum(mine, other) if clipped else mine) * other
        scale = norm * norm[own]
        dot = np.bincount(entries.sentence[entries.other], product, len(lengths))
        similarity += dot / np.where(scale > 0, scale, 1)
    if clipped:
        bigrams = np.maximum(lengths - 1, 0)
        similarity *= np.exp(-((bigrams[own] - bigrams) ** 2) / (2 * SIGMA**2))
    return np.asarray(10 / ORDERS * np.bincount(np.searchsorted(corpus.first, own), similarity, len(corpus)) / refs)


def _idf(corpus: Corpus) -> list[Floats]:
    """Of the n-grams of each order, with the references of the corpus as documents."""
    return [np.log(max(len(corpus), 1)) - np.log(np.maximum(entries.images, 1)) for entries in corpus.entries]


class References:
    """References as weighted n-gram vectors, made once and scored against as often as one likes."""

    def __init__(self, sentences: Sentences, image: Ints, df: DocumentFrequency) -> None:
        """`image[i]` is the image of sentence i, ascending from 0 without gaps."""
        self._per_image = np.bincount(image)
        self._first = np.cumsum(self._per_image) - self._per_image
        self._bigrams = np.maximum(sentences.lengths - 1, 0)
        orders = list(ngrams.grams(sentences, [[table] for table in df.tables]))
        self._known = [
            _Known.of(table, grams.new, df.images, counts)
            for table, grams, counts in zip(df.tables, orders, df.counts, strict=True)
        ]
        entries = ngrams.bag(orders)
        weight = entries.times * np.concatenate([known.idf for known in self._known])[self._row(entries)]
        vector = entries.sentence * ORDERS + entries.order
        norms = np.sqrt(np.bincount(vector, weight**2, 1))
        key = (image[entries.sentence] << SHIFT) + entries.gram
        order = np.argsort(key)  # by image, then by n-gram
        self._sentence, self._weight, key = entries.sentence[order], weight[order], key[order]
        self._unit = self._weight / np.where(norms > 0, norms, 1)[vector[order]]
        self._start = ngrams.run_ends(key)  # where the entries of each key begin
        key = key[self._start[:-1]]
        self._key_of = np.searchsorted(key, np.arange(len(self._per_image) + 1) << SHIFT)  # where those of an image are
        self._keys = _Table.of(key, self._home(key))

    def _row(self, entries: Bag) -> Ints:
        """Where the n-grams are, those of an order behind those of the order before."""
        sizes = np.array([len(known.idf) for known in self._known])
        return np.asarray((np.cumsum(sizes) - sizes)[entries.order] + entries.number)

    def score(self, words: Ints, lengths: Ints, image: Ints) -> Floats:
        """CIDEr-D of hypotheses (S, T), of which `lengths` words count, against the references of their images."""
        refs = self._per_image[image]
        pair_of = np.cumsum(refs) - refs  # pairs (hypothesis, reference) are numbered hypothesis by hypothesis
        owner, gram, weight, share = self._ngrams(words.T, lengths)
        key = (image[owner] << SHIFT) + gram
        there = self._keys.find(key, self._home(key))
        met = np.flatnonzero(there >= 0)
        start, owner = self._start[there[met]], owner[met]
        times = self._start[there[met] + 1] - start
        theirs = ngrams.ranges(start, times)  # what references have of it
        pair = np.repeat((pair_of - self._first[image])[owner], times) + self._sentence[theirs]
        product = np.minimum(np.repeat(weight[met], times), self._weight[theirs])
        product *= self._unit[theirs] * np.repeat(share[met], times)
        similarity = np.bincount(pair, product, int(refs.sum()))
        longer = np.repeat(np.maximum(lengths - 1, 0), refs) - self._bigrams[ngrams.ranges(self._first[image], refs)]
        similarity *= np.exp(-(longer**2) / (2 * SIGMA**2))
        hypothesis = np.repeat(np.arange(len(image)), refs)
        return np.asarray(10 / ORDERS * np.bincount(hypothesis, similarity, len(image)) / refs)

    def _home(self, key: Ints) -> Ints:
        """The slots of keys of images: those of one image are next to each other, and soon in the processor's cache."""
        image, gram = key >> SHIFT, (key & LOW).astype(np.uint64)
        first = self._key_of[image]
        room = (ROOM * (self._key_of[image + 1] - first)).astype(np.uint64)
        mixed = gram * np.uint64(MIXER) & np.uint64(LOW)
        return np.asarray(ROOM * first + (mixed * room >> np.uint64(SHIFT)).astype(np.int64))

    def _ngrams(self, words: Ints, lengths: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """Of every place in words (T, S), hypotheses side by side, where an n-gram begins that a table has: hypothesis,
        n-gram, weight, and the part of 1 / |h| that falls to one of the places of that n-gram.

        Nothing is sorted: two places hold the same n-gram if they hold the same one of an order less, and the same
        word behind it.
        """
        real = np.arange(len(words))[:, None] < lengths  # (T, S)
        short = np.where(real, words, -1 - np.arange(len(words))[:, None]).astype(np.int32)  # behind the end all differ
        one = same = short[:, None] == short[None]  # (T, T, S)
        flat, hypotheses = np.where(real, words, -1).reshape(-1), len(lengths)
        place = np.flatnonzero(real)
        owner, number = place % max(hypotheses, 1), np.zeros(len(place), np.int64)
        found = []
        for n, known in enumerate(self._known):
            if n:
                same = same[:-1, :-1] & one[n:, n:]
                goes_on = np.flatnonzero(lengths[owner] * hypotheses > place + n * hypotheses)
                place, owner, number = place[goes_on], owner[goes_on], number[goes_on]
            number = known.find((number << SHIFT) + flat[place + n * hypotheses])
            seen = np.flatnonzero(number >= 0)
            place, owner, number = place[seen], owner[seen], number[seen]
            times = np.add.reduce(same.view(np.uint8), 0, dtype=np.uint8 if len(words) < 256 else np.int64)
            idf, own = real[n:] * known.idf[-1], known.idf[number]
            idf.reshape(-1)[place] = own
            norms = np.sqrt((times * idf**2).sum(0))  # each of the places of an n-gram adds its part
            many = times.reshape(-1)[place]
            share = 1 / (many * np.where(norms > 0, norms, 1)[owner])
            found.append((owner, number + (n << ORDER_SHIFT), many * own, share))
        owners, grams, weights, shares = (np.concatenate(column) for column in zip(*found, strict=True))
        return owners, grams, weights, shares


class _Table(NamedTuple):
    """Keys by number, in a hash table: the keys themselves are compared, not only their hashes."""

    keys: Ints  # and -1 at the end
    slots: NDArray[np.int32]  # the number of a key is at its home, or in the first slots behind; -1: none

    @staticmethod
    def of(keys: Ints, home: Ints) -> _Table:
        slots = np.full(ROOM * len(keys) + 1, -1, np.int32)
        left, slot = np.arange(len(keys)), home
        while len(left):
            free = slots[slot] < 0
            slots[slot[free]] = left[free]
            lost = slots[slot] != left
            left, slot = left[lost], (slot[lost] + 1) % len(slots)
        return _Table(np.append(keys, -1), slots)

    def find(self, keys: Ints, home: Ints) -> Ints:
        """The number of each key; -1: there is none."""
        here = self.slots[home]
        hit = self.keys[here] == keys
        number = np.where(hit, here, -1).astype(np.int64)
        left = np.flatnonzero((here >= 0) > hit)
        slot = home[left]
        while len(left):
            slot = (slot + 1) % len(self.slots)
            here = self.slots[slot]
            hit = self.keys[here] == keys[left]
            number[left[hit]] = here[hit]
            on = np.flatnonzero((here >= 0) > hit)
            left, slot = left[on], slot[on]
        return number


class _Known(NamedTuple):
    """The n-grams of one order that documents or references have."""

    table: _Table
    idf: Floats  # by number, and of one never seen at the end
    size: int
    small: bool  # are keys below the number of slots, as words are? Then each is its own slot

    @staticmethod
    def of(table: Ints, new: Ints, images: int, counts: Ints) -> _Known:
        """Those of a table with their counts of images, and those that only references have, numbered behind."""
        df = np.concatenate([counts, np.ones(len(new) + 1, np.int64)])
        keys = np.concatenate([table, new])
        small = int(keys.max(initial=0)) < ROOM * len(keys)
        known = _Known(_Table.of(keys[:0], keys[:0]), np.log(max(images, 1)) - np.log(df), len(keys), small)
        return known._replace(table=_Table.of(keys, known._home(keys)))

    def find(self, keys: Ints) -> Ints:
        """The number of each n-gram, by its key; -1: there is none."""
        return self.table.find(keys, self._home(keys))

    def _home(self, keys: Ints) -> Ints:
        if self.small:
            return np.asarray(np.minimum(keys, ROOM * self.size))
        mixed = keys.astype(np.uint64) * np.uint64(MIXER) >> np.uint64(64 - SHIFT)
        return np.asarray(mixed * np.uint64(ROOM * self.size) >> np.uint64(SHIFT), np.int64)


def _checked(path: str, meta: dict[str, str], arrays: dict[str, NDArray[np.generic]]) -> DocumentFrequency:
    """A table whose every number is in range, or DataError."""

    def need(good: bool, what: str) -> None:
        if not good:
            raise DataError(f"{path} is not a sound document frequency file: {what}; make it anew with `groundling df`")

    need(meta.get("format") == FORMAT, f"format {meta.get('format')!r} instead of {FORMAT!r}")
    number = meta.get("images", "")
    need(number.isascii() and number.isdigit() and len(number) < 10 and int(number) > 0, "no number of images")
    names = [f"{kind}{n + 1}" for n in range(ORDERS) for kind in ("table", "count")]
    need(set(arrays) == {"words", *names}, f"it holds {sorted(arrays)}")
    need(arrays["words"].dtype == np.uint8 and arrays["words"].ndim == 1, "words are not bytes")
    need(all(arrays[n].dtype == np.int64 and arrays[n].ndim == 1 for n in names), "a table is not of 64-bit integers")
    try:
        words = json.loads(arrays["words"].tobytes())
    except (ValueError, RecursionError):
        words = None
    need(isinstance(words, list) and all(isinstance(word, str) for word in words), "words are not a list of strings")
    need(len(set(words)) == len(words), "a word occurs twice")
    tables = tuple(np.asarray(arrays[f"table{n + 1}"], np.int64) for n in range(ORDERS))
    counts = tuple(np.asarray(arrays[f"count{n + 1}"], np.int64) for n in range(ORDERS))
    for n, (table, count) in enumerate(zip(tables, counts, strict=True)):
        need(len(table) == len(count), f"order {n + 1} has {len(table)} n-grams and {len(count)} counts")
        need(bool((np.diff(table) > 0).all()), f"order {n + 1} is not sorted")
        need(bool(((count >= 1) & (count <= int(number))).all()), f"a count of order {n + 1} is not in 1..{number}")
        prefixes = len(tables[n - 1]) if n else 1
        need(
            bool(((table >= 0) & (table >> SHIFT < prefixes)).all()),
            f"an n-gram of order {n + 1} has an unknown prefix",
        )
        last = table & LOW
        need(bool((last < len(words)).all()), f"an n-gram of order {n + 1} has an unknown word")
    return DocumentFrequency(tuple(words), tables, counts, int(number))
