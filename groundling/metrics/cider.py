"""CIDEr: how much a caption says what people say of this image, and of few others.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.files import saved
from groundling.metrics import ngrams
from groundling.metrics.ngrams import LOW, ORDERS, SHIFT, Bag, Corpus, Ints, Numbers, Sentences, Words

Floats = NDArray[np.float64]

SIGMA = 6.0
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

    @cached_property
    def idf(self) -> Floats:
        """ln N - ln max(1, df) of the n-grams of each order and, behind them, of one never seen; all in one row."""
        df = np.concatenate([np.append(count, 1) for count in self.counts])
        return np.asarray(np.log(max(self.images, 1)) - np.log(df))

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
    df = df or DocumentFrequency.of_numbers(corpus.references, corpus.image, len(corpus))
    parts = [np.zeros(0)]
    for block in corpus.blocks():
        references = References(block.references, block.image, df)
        parts.append(references.score(block.hypotheses, np.arange(len(block)), clipped))
    return np.concatenate(parts)


class References:
    """References as weighted n-gram vectors, made once and scored against as often as one likes."""

    def __init__(self, sentences: Sentences, image: Ints, df: DocumentFrequency) -> None:
        """`image[i]` is the image of sentence i, ascending from 0 without gaps."""
        self._per_image = np.bincount(image)
        self._first = np.cumsum(self._per_image) - self._per_image
        self._bigrams = np.maximum(sentences.lengths - 1, 0)
        self._idf, self._sizes = df.idf, np.array([len(count) for count in df.counts])
        self._begin = np.cumsum(self._sizes + 1) - self._sizes - 1  # of each order in the row of idf
        orders = list(ngrams.grams(sentences, [[table] for table in df.tables]))
        self._tables = [
            [table, grams_of_order.new] if len(grams_of_order.new) else [table]
            for table, grams_of_order in zip(df.tables, orders, strict=True)
        ]
        self._known = np.array([sum(map(len, tables)) for tables in self._tables])
        entries = ngrams.bag(orders)
        weight = self._weights(entries)
        self._norms = _norms(entries.sentence * ORDERS + entries.order, weight, len(sentences.lengths))
        key = (image[entries.sentence] << SHIFT) + entries.gram
        order = np.argsort(key)  # by image, then by n-gram
        self._sentence, self._weight, key = entries.sentence[order], weight[order], key[order]
        self._start = ngrams.run_ends(key)  # where the entries of each key begin
        self._key = key[self._start[:-1]]
        self._keys_of = np.searchsorted(self._key, np.arange(len(self._per_image) + 1) << SHIFT)  # those of each image

    def score(self, hypotheses: Sentences, image: Ints, clipped: bool) -> Floats:
        """CIDEr (or, clipped, CIDEr-D) of each hypothesis against the references of its image."""
        refs = self._per_image[image]
        pair_of = np.cumsum(refs) - refs  # pairs (hypothesis, reference) are numbered hypothesis by hypothesis
        hypothesis = np.repeat(np.arange(len(image)), refs)
        reference = ngrams.ranges(self._first[image], refs)
        entries = ngrams.bag(list(ngrams.grams(hypotheses, self._tables)))
        weight = self._weights(entries)
        mine, theirs = self._meet(entries, image)
        ours, other = weight[mine], self._weight[theirs]
        product = (np.minimum(ours, other) if clipped else ours) * other
        row = entries.sentence * ORDERS + entries.order
        cell = row + ORDERS * (pair_of - self._first[image] - np.arange(len(image)))[entries.sentence]
        index = cell[mine] + ORDERS * self._sentence[theirs]  # of the pair and the order
        dot = np.bincount(index, product, len(reference) * ORDERS).reshape(-1, ORDERS)
        scale = _norms(row, weight, len(image))[hypothesis] * self._norms[reference]
        similarity = dot / np.where(scale > 0, scale, 1) @ np.full(ORDERS, 1 / ORDERS)
        if clipped:
            longer = np.maximum(hypotheses.lengths - 1, 0)[hypothesis] - self._bigrams[reference]
            similarity *= np.exp(-(longer**2) / (2 * SIGMA**2))
        return np.asarray(10 * np.bincount(hypothesis, similarity, len(image)) / refs)

    def _weights(self, entries: Bag) -> Floats:
        """times * idf; an n-gram whose number is beyond the table was never seen."""
        order = entries.order
        return np.asarray(
            entries.times * self._idf[self._begin[order] + np.minimum(entries.number, self._sizes[order])]
        )

    def _meet(self, entries: Bag, image: Ints) -> tuple[Ints, Ints]:
        """Where a hypothesis and a reference of its image share an n-gram: their entries."""
        images, local = np.unique(image, return_inverse=True)
        start = self._keys_of[images]
        length = self._keys_of[images + 1] - start
        here = ngrams.ranges(start, length)  # the part of the corpus that belongs to these images
        keys = (np.repeat(np.arange(len(images)), length) << SHIFT) + (self._key[here] & LOW)
        mine = np.flatnonzero(entries.number < self._known[entries.order])
        wanted = (local.reshape(-1)[entries.sentence[mine]] << SHIFT) + entries.gram[mine]
        index = np.searchsorted(keys, wanted)
        met = np.flatnonzero(np.append(keys, -1)[index] == wanted)
        there = here[index[met]]
        times = self._start[there + 1] - self._start[there]
        return np.repeat(mine[met], times), ngrams.ranges(self._start[there], times)


def _norms(row: Ints, weight: Floats, sentences: int) -> Floats:
    """(sentences, 4) the length of each vector; `row` is sentence * 4 + order."""
    return np.asarray(np.sqrt(np.bincount(row, weight**2, sentences * ORDERS)).reshape(sentences, ORDERS))


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
