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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.ngrams import LOW, ORDERS, SHIFT, Bag, Ints, Numbers, Sentences, bag, distinct, grams, ranges

Floats = NDArray[np.float64]
Words = Sequence[str]

SIGMA = 6.0
FORMAT = "groundling-df-1"


@dataclass(frozen=True)
class DocumentFrequency:
    """In how many images' references each n-gram occurs. `tables` and `counts` are per order, 1 to 4.

    `tables[n - 1]` holds the sorted keys of `ngrams.grams`, a word being its place in `words`.
    """

    words: tuple[str, ...]
    tables: tuple[Ints, ...]
    counts: tuple[Ints, ...]
    images: int

    @staticmethod
    def of(references: Sequence[Sequence[Words]]) -> DocumentFrequency:
        """Count a corpus: for each image its references, each a sequence of words."""
        numbers = Numbers()
        sentences = numbers.read([r for refs in references for r in refs])
        image = np.repeat(np.arange(len(references)), [len(refs) for refs in references])
        tables, counts = [], []
        for sentence, gram, table in grams(sentences, [()] * ORDERS):
            tables.append(table)
            counts.append(_images_with(gram, image[sentence], len(table)))
        return DocumentFrequency(tuple(numbers), tuple(tables), tuple(counts), len(references))

    def count(self, words: Words) -> int:
        """In how many images this n-gram was seen; 0 if never."""
        if not 1 <= len(words) <= ORDERS:
            raise ValueError(f"an n-gram here has 1 to {ORDERS} words, got {len(words)}")
        key = place = 0
        for n, word in enumerate(words):
            key = (place << SHIFT) + self.vocabulary.get(word, len(self.words))
            place = int(np.searchsorted(self.tables[n], key))
            if place == len(self.tables[n]) or self.tables[n][place] != key:
                return 0
        return int(self.counts[len(words) - 1][place])

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this table in signatures."""
        content = hashlib.sha256(json.dumps([self.words, self.images]).encode())
        for array in (*self.tables, *self.counts):
            content.update(np.ascontiguousarray(array, "<i8").tobytes())
        return content.hexdigest()[:12]

    def save(self, path: Path | str) -> None:
        """Write a safetensors file: the arrays, and the words as the bytes of one JSON list."""
        from safetensors.numpy import save_file

        arrays = {"words": np.frombuffer(json.dumps(self.words).encode(), np.uint8)}
        for n in range(ORDERS):
            arrays[f"table{n + 1}"] = np.ascontiguousarray(self.tables[n])
            arrays[f"count{n + 1}"] = np.ascontiguousarray(self.counts[n])
        save_file(arrays, str(path), {"format": FORMAT, "images": str(self.images)})

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
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]], df: DocumentFrequency | None = None
) -> Floats:
    """Plain CIDEr of each item, 0 to 10; words already tokenised."""
    return _score(hypotheses, references, df, clipped=False)


def cider_d(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]], df: DocumentFrequency | None = None
) -> Floats:
    """CIDEr-D of each item, 0 to 10; words already tokenised."""
    return _score(hypotheses, references, df, clipped=True)


class References:
    """The references of a corpus as weighted n-gram vectors, made once and scored against as often as one likes."""

    def __init__(self, sentences: Sentences, image: Ints, df: DocumentFrequency | None = None) -> None:
        """`image[i]` is the image of sentence i, ascending from 0. Without `df`, these references are the corpus."""
        self.per_image = np.bincount(image)
        if not self.per_image.all():
            raise ValueError(f"image {int(np.argmin(self.per_image))} has no reference")
        self.first = np.cumsum(self.per_image) - self.per_image
        self.bigrams = np.maximum(sentences.lengths - 1, 0)
        self.images = df.images if df else len(self.per_image)
        self.orders: list[_Order] = []
        known = [[table] for table in df.tables] if df else [[]] * ORDERS
        for n, (sentence, gram, new) in enumerate(grams(sentences, known)):
            counts = df.counts[n] if df else _images_with(gram, image[sentence], len(new))
            entries = bag(sentence, gram)
            weight = self._weights(entries, counts)
            norm = _norms(entries, weight, len(sentences.lengths))
            key = (image[entries.sentence] << SHIFT) + entries.gram
            order = np.argsort(key, kind="stable")
            tables = [*known[n], new]
            self.orders.append(_Order(tables, counts, key[order], entries.sentence[order], weight[order], norm))

    def score(self, hypotheses: Sentences, image: Ints, clipped: bool) -> Floats:
        """CIDEr (or, clipped, CIDEr-D) of each hypothesis against the references of its image."""
        images, local = np.unique(image, return_inverse=True)
        refs = self.per_image[image]
        pair_of = np.cumsum(refs) - refs  # pairs (hypothesis, reference) are numbered hypothesis by hypothesis
        hypothesis = np.repeat(np.arange(len(image)), refs)
        reference = ranges(self.first[image], refs)
        total = np.zeros(len(hypothesis))
        for order, found in zip(self.orders, grams(hypotheses, [order.tables for order in self.orders]), strict=True):
            entries = bag(found.sentence, found.number)
            weight = self._weights(entries, order.counts)
            norm = _norms(entries, weight, len(image))
            source, target, other = order.meet(entries, images, local.reshape(-1))
            product = np.minimum(weight[source], other) * other if clipped else weight[source] * other
            sentence = entries.sentence[source]
            pair = pair_of[sentence] + target - self.first[image[sentence]]
            scale = norm[hypothesis] * order.norm[reference]
            total += np.bincount(pair, product, len(total)) / np.where(scale > 0, scale, 1)
        if clipped:
            longer = np.maximum(hypotheses.lengths - 1, 0)[hypothesis] - self.bigrams[reference]
            total *= np.exp(-(longer**2) / (2 * SIGMA**2))
        return np.asarray(np.bincount(hypothesis, total, len(image)) / refs / ORDERS * 10)

    def _weights(self, entries: Bag, counts: Ints) -> Floats:
        """times * (ln N - ln max(1, df)); numbers beyond the table are n-grams never seen."""
        df = np.ones(len(entries.gram))
        seen = entries.gram < len(counts)
        df[seen] = counts[entries.gram[seen]]
        return np.asarray(entries.times * (np.log(max(self.images, 1)) - np.log(df)))


class _Order(NamedTuple):
    """The n-grams of one order in all references, sorted by image, then by n-gram."""

    tables: list[Ints]  # the keys of n-grams: of the document frequencies, then those seen in the references only
    counts: Ints  # images with each n-gram of the first table
    key: Ints  # (image << 32) + number of the n-gram
    sentence: Ints
    weight: Floats
    norm: Floats  # of each sentence

    def meet(self, entries: Bag, images: Ints, local: Ints) -> tuple[Ints, Ints, Floats]:
        """Where a hypothesis and a reference of its image share an n-gram: entry of the hypothesis, the reference,
        and the weight there. `local[i]` is the place in `images` (ascending) of the image of hypothesis i."""
        start = np.searchsorted(self.key, images << SHIFT)
        length = np.searchsorted(self.key, (images + 1) << SHIFT) - start
        here = ranges(start, length)  # the part of the corpus that belongs to these images
        key = (np.repeat(np.arange(len(images)), length) << SHIFT) + (self.key[here] & LOW)
        mine = (local[entries.sentence] << SHIFT) + entries.gram
        begin, end = np.searchsorted(key, mine), np.searchsorted(key, mine, "right")
        source = np.repeat(np.arange(len(mine)), end - begin)
        there = here[ranges(begin, end - begin)]
        return source, self.sentence[there], self.weight[there]


def _score(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]], df: DocumentFrequency | None, clipped: bool
) -> Floats:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} lists of references")
    if not hypotheses:
        return np.zeros(0)
    numbers = Numbers(df.vocabulary if df else ())
    image = np.repeat(np.arange(len(references)), [len(refs) for refs in references])
    corpus = References(numbers.read([r for refs in references for r in refs]), image, df)
    return corpus.score(numbers.read(hypotheses), np.arange(len(hypotheses)), clipped)


def _images_with(gram: Ints, image: Ints, grams: int) -> Ints:
    """In how many images each n-gram is."""
    return np.bincount(distinct((image << SHIFT) + gram)[0] & LOW, minlength=grams)


def _norms(entries: Bag, weight: Floats, sentences: int) -> Floats:
    return np.asarray(np.sqrt(np.bincount(entries.sentence, weight**2, sentences)))


def _checked(path: str, meta: dict[str, str], arrays: dict[str, NDArray[np.generic]]) -> DocumentFrequency:
    """A table whose every number is in range, or DataError."""

    def need(good: bool, what: str) -> None:
        if not good:
            raise DataError(f"{path} is not a sound document frequency file: {what}; make it anew with `groundling df`")

    need(meta.get("format") == FORMAT, f"format {meta.get('format')!r} instead of {FORMAT!r}")
    number = meta.get("images", "")
    need(number.isascii() and number.isdigit() and len(number) < 10, "no number of images")
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
