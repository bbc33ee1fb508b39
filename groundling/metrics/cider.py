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

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.ngrams import ORDERS, SHIFT, Bag, Ints, Sentences, bag, grams, number_words, ranges

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
        vocabulary: dict[str, int] = {}
        sentences = number_words([r for refs in references for r in refs], vocabulary)
        per_image = np.fromiter(map(len, references), np.int64, len(references))
        tables, counts = _count(sentences, np.repeat(np.arange(len(references)), per_image))
        return DocumentFrequency(tuple(vocabulary), tables, counts, len(references))

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

    def idf(self, order: int, gram: Ints) -> Floats:
        """ln N - ln max(1, df); numbers beyond the table are n-grams never seen."""
        counts = self.counts[order]
        df = np.ones(len(gram))
        seen = gram < len(counts)
        df[seen] = counts[gram[seen]]
        return np.asarray(np.log(max(self.images, 1)) - np.log(df))

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

    def __init__(self, sentences: Sentences, image: Ints, df: DocumentFrequency) -> None:
        """`image[i]` is the image of sentence i, in ascending order; every image needs a reference."""
        self.df = df
        self.per_image = np.bincount(image)
        if not self.per_image.all():
            raise ValueError(f"image {int(np.argmin(self.per_image))} has no reference")
        self.first = np.cumsum(self.per_image) - self.per_image
        self.bigrams = np.maximum(sentences.lengths - 1, 0)
        self.tables: list[tuple[Ints, Ints]] = []  # of each order: the n-grams of df, then those seen here only
        self.orders: list[tuple[Ints, Ints, Floats, Floats]] = []
        for n, (owner, gram, new) in enumerate(grams(sentences, [[table] for table in df.tables])):
            self.tables.append((df.tables[n], new))
            entries = bag(owner, gram)
            weight = entries.times * df.idf(n, entries.gram)
            norm = np.sqrt(np.bincount(entries.sentence, weight**2, len(sentences.lengths)))
            key = (image[entries.sentence] << SHIFT) + entries.gram
            order = np.argsort(key, kind="stable")
            self.orders.append((key[order], entries.sentence[order], weight[order], norm))

    def score(self, hypotheses: Sentences, image: Ints, clipped: bool) -> Floats:
        """CIDEr (or, clipped, CIDEr-D) of each hypothesis against the references of its image."""
        images, local = np.unique(image, return_inverse=True)
        refs = self.per_image[image]
        pair_of = np.cumsum(refs) - refs  # pairs (hypothesis, reference) are numbered hypothesis by hypothesis
        hypothesis = np.repeat(np.arange(len(image)), refs)
        reference = ranges(self.first[image], refs)
        total = np.zeros(len(hypothesis))
        for n, (owner, gram, _) in enumerate(grams(hypotheses, self.tables)):
            entries = bag(owner, gram)
            weight = entries.times * self.df.idf(n, entries.gram)
            norm = np.sqrt(np.bincount(entries.sentence, weight**2, len(image)))
            theirs, source, target, other = self._meet(n, entries, images, local)
            product = np.minimum(weight[source], other) * other if clipped else weight[source] * other
            sentence = entries.sentence[source]
            pair = pair_of[sentence] + target - self.first[image[sentence]]
            dot = np.bincount(pair, product, len(total))
            scale = norm[hypothesis] * theirs[reference]
            total += dot / np.where(scale > 0, scale, 1)
        if clipped:
            longer = np.maximum(hypotheses.lengths - 1, 0)[hypothesis] - self.bigrams[reference]
            total *= np.exp(-(longer**2) / (2 * SIGMA**2))
        return np.asarray(np.bincount(hypothesis, total, len(image)) / refs / ORDERS * 10)

    def _meet(self, n: int, entries: Bag, images: Ints, local: Ints) -> tuple[Floats, Ints, Ints, Floats]:
        """Norms of the references; and where a hypothesis and a reference of its image share an n-gram: the entry
        of the hypothesis, the reference, and its weight there."""
        keys, sentence, weight, norm = self.orders[n]
        start = np.searchsorted(keys, images << SHIFT)
        length = np.searchsorted(keys, (images + 1) << SHIFT) - start
        here = ranges(start, length)  # the part of the corpus that belongs to these images
        low = (1 << SHIFT) - 1
        key = (np.repeat(np.arange(len(images)), length) << SHIFT) + (keys[here] & low)
        mine = (local.reshape(-1)[entries.sentence] << SHIFT) + entries.gram
        begin, end = np.searchsorted(key, mine), np.searchsorted(key, mine, "right")
        source = np.repeat(np.arange(len(mine)), end - begin)
        there = here[ranges(begin, end - begin)]
        return norm, source, sentence[there], weight[there]


def _score(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]], df: DocumentFrequency | None, clipped: bool
) -> Floats:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} lists of references")
    if not hypotheses:
        return np.zeros(0)
    df = df or DocumentFrequency.of(references)
    vocabulary = dict(df.vocabulary)
    image = np.repeat(np.arange(len(references)), [len(refs) for refs in references])
    corpus = References(number_words([r for refs in references for r in refs], vocabulary), image, df)
    return corpus.score(number_words(hypotheses, vocabulary), np.arange(len(hypotheses)), clipped)


def _count(sentences: Sentences, image: Ints) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """Sorted keys and number of images, for each order."""
    tables, counts = [], []
    for owner, gram, table in grams(sentences, [()] * ORDERS):
        seen = np.unique((image[owner] << SHIFT) + gram) & ((1 << SHIFT) - 1)
        tables.append(table)
        counts.append(np.bincount(seen, minlength=len(table)))
    return tuple(tables), tuple(counts)


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
        last = table & ((1 << SHIFT) - 1)
        need(bool((last < len(words)).all()), f"an n-gram of order {n + 1} has an unknown word")
    return DocumentFrequency(tuple(words), tables, counts, int(number))
