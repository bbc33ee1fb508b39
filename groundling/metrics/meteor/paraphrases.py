"""METEOR's paraphrase table: five million pairs of phrases. Only those that a corpus can use are ever looked at.

The table is read once and kept in the user's cache folder: the hashes of its phrases, sorted, and for each phrase the
numbers of its paraphrases in the order of the table. The hash of a phrase is Σ_i h(word_i) B^(n - i) modulo 2^64, that
of a word is made of eight bytes at a time, so that those of all phrases of a table or a corpus take a few operations on
arrays; two phrases in 2^64 would be taken for one.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.files import atomic, read_text
from groundling.metrics.jars import cache_folder
from groundling.progress import track

log = logging.getLogger(__name__)

LONGEST = 7  # words of a phrase in the table
BYTES = 272_201_058  # of the table, for the progress bar
BASE = np.uint64(0x9E3779B97F4A7C15)
PRIME = np.uint64(0xD6E8FEB86659FD93)
KEEP = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # the first n of eight bytes
LAYOUT = 6  # of the files
BLOCK = 1 << 19  # bytes read at a time

Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]


class Table(NamedTuple):
    phrases: Hashes  # (K,), sorted
    starts: NDArray[np.uint32]  # (K + 1,), where the paraphrases of each begin
    paraphrases: NDArray[np.uint32]  # numbers of phrases
    buckets: NDArray[np.uint32]  # (2^b + 1,), where the phrases begin whose first b bits are 0, 1, ...

    @staticmethod
    def of(pairs: Hashes) -> Table:
        """The table of pairs (n, 2): phrase, paraphrase."""
        ends = np.append(pairs[1:, 0] != pairs[:-1, 0], True)  # a phrase stands above all its paraphrases, mostly
        every = np.sort(np.concatenate([pairs[ends, 0], pairs[:, 1]]))
        phrases: Hashes = every[np.append(True, every[1:] != every[:-1])]
        buckets = _buckets(phrases)
        phrase, paraphrase = (_numbers(column, phrases, buckets).astype(np.uint32) for column in pairs.T)
        order = np.argsort(phrase, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(phrase, minlength=len(phrases)))).astype(np.uint32)
        return Table(phrases, starts, paraphrase[order], buckets)


class Spans(NamedTuple):
    """Phrases of the table in sentences that are laid end to end, in their order, shorter ones first."""

    at: Ints  # first word
    length: Ints
    phrase: Ints  # its number in the table


def find(words: Ints, vocabulary: Sequence[str], lengths: Ints, table: Table) -> tuple[Spans, Ints, Ints]:
    """Where phrases are in sentences, and all pairs of a phrase and a paraphrase with both there, by the table's order.

    `words`: numbers in the vocabulary, sentence by sentence; `lengths`: how many words each sentence has. Phrases
    without a paraphrase among the sentences are left out.
    """
    at, length, phrase = _occurrences(words, vocabulary, lengths, table)
    phrase_here = np.zeros(len(table.phrases), bool)
    phrase_here[phrase] = True
    present = np.flatnonzero(phrase_here)
    begin, end = (table.starts[present + i].astype(np.int64) for i in (0, 1))
    counts = end - begin
    rows = np.repeat(end - np.cumsum(counts), counts) + np.arange(counts.sum())
    other = table.paraphrases[rows].astype(np.int64)
    both = phrase_here[other]
    owner, other = np.repeat(present, counts)[both], other[both]
    useful = np.zeros(len(table.phrases), bool)
    useful[owner] = useful[other] = True
    keep = np.flatnonzero(useful[phrase])
    order = keep[np.argsort(at[keep] * (LONGEST + 1) + length[keep], kind="stable")]
    return Spans(at[order], length[order], phrase[order]), owner, other


def _occurrences(words: Ints, vocabulary: Sequence[str], lengths: Ints, table: Table) -> tuple[Ints, Ints, Ints]:
    """Phrases of the table in the sentences: (first word, number of words, number of the phrase)."""
    of_word = hash_lines("".join(f"{word}\n" for word in vocabulary).encode("utf-8", "surrogatepass"))[words]
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))  # words of its sentence from here on
    hashes, occurrences = of_word, []
    for n in range(1, LONGEST + 1):
        if n > 1:
            hashes = hashes[:-1] * BASE + of_word[n - 1 :]
        at = np.flatnonzero(left[: len(hashes)] >= n)
        number = _numbers(hashes[at], table.phrases, table.buckets)
        hit = np.flatnonzero(number >= 0)
        occurrences.append((at[hit], np.full(len(hit), n), number[hit]))
    first, length, phrase = (np.concatenate(column) for column in zip(*occurrences, strict=True))
    return first, length, phrase


def _buckets(phrases: Hashes) -> NDArray[np.uint32]:
    """Where the phrases of each bucket begin; they are spread evenly, two or so to each."""
    bits = max(1, len(phrases).bit_length() - 1)
    of_bucket = np.bincount((phrases >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
    return np.append(0, np.cumsum(of_bucket)).astype(np.uint32)


def _numbers(hashes: Hashes, phrases: Hashes, buckets: NDArray[np.uint32]) -> Ints:
    """The number of the phrase of each hash; -1: there is none."""
    bits = (len(buckets) - 1).bit_length() - 1
    bucket = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    at, end = buckets[bucket].astype(np.int64), buckets[bucket + 1]
    number, left = np.full(len(hashes), -1, np.int64), np.arange(len(hashes))
    while len(left):
        left = left[at[left] < end[left]]
        hit = phrases[at[left]] == hashes[left]
        number[left[hit]] = at[left[hit]]
        left = left[~hit]
        at[left] += 1
    return number


def hash_lines(text: bytes) -> Hashes:
    """The hash of the phrase in each line; every line ends with a newline, words with a space."""
    padded = text + bytes(8)
    data = np.frombuffer(padded, np.uint8)[: len(text)]
    ends = np.flatnonzero(data <= ord(" "))
    words = _hash_words(padded, np.append(0, ends[:-1] + 1)[: len(ends)], ends)
    last = np.flatnonzero(data[ends] == ord("\n"))
    first = np.append(0, last[:-1] + 1)[: len(last)]
    hashes: Hashes = words[first]
    for n in range(1, int((last - first).max(initial=0)) + 1):
        longer = np.flatnonzero(first + n <= last)
        hashes[longer] = hashes[longer] * BASE + words[first[longer] + n]
    return hashes


def _hash_words(padded: bytes, starts: Ints, ends: Ints) -> Hashes:
    """Of each word, eight bytes at a time: h <- (h xor bytes) P, mixed in the end."""
    eight: Hashes = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))  # those that begin at every byte
    hashes, rest = np.zeros(len(starts), np.uint64), np.arange(len(starts))
    for at in range(0, int((ends - starts).max(initial=0)), 8):
        left = ends[rest] - starts[rest] - at
        rest, left = rest[left > 0], left[left > 0]
        hashes[rest] = (hashes[rest] ^ (eight[starts[rest] + at] & KEEP[left.clip(max=8)])) * PRIME
    mixed: Hashes = (hashes ^ (hashes >> np.uint64(32))) * BASE
    return mixed


# ---------------------------------------------------------------- the table on disk


def open_table(path: Path) -> Table:
    """The table, memory-mapped; its files are made on first use, and made again if they are damaged."""
    stamp = _stamp(path)
    paths = [cache_folder() / f"meteor-{stamp}-{part}.npy" for part in Table._fields]
    sums = cache_folder() / f"meteor-{stamp}-sums.txt"
    table = _opened(paths, sums)
    if table is None:
        log.info("METEOR: reading the paraphrase table, once")
        made = _read(path)
        for file, array in zip(paths, made, strict=True):
            _write(file, array)
        with atomic(sums) as out:
            out.write(_checksum(made).encode())
        table = _opened(paths, sums)
    if table is None:
        raise DataError(f"{paths[0].parent} does not keep what is written there; set XDG_CACHE_HOME to another folder")
    return table


def _stamp(path: Path) -> str:
    """The checksum and the length that the archive itself has of its contents, and our layout."""
    try:
        with open(path, "rb") as file:
            file.seek(-8, os.SEEK_END)
            return f"{LAYOUT}-{file.read().hex()}"
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; pip install --force-reinstall pycocoevalcap") from error


def _opened(paths: list[Path], sums: Path) -> Table | None:
    """The table of these files; None unless all are there and have the checksum that they were written with."""
    try:
        table = Table(*(np.load(path, mmap_mode="r", allow_pickle=False) for path in paths))
        if _checksum(table) == read_text(sums, 100):
            return table
    except (OSError, ValueError, EOFError, TypeError, DataError):
        pass
    return None


def _checksum(table: Table) -> str:
    content = hashlib.sha256()
    for array in table:
        content.update(f"{array.dtype} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def _write(path: Path, array: Any) -> None:
    with atomic(path) as file:
        np.save(file, array, allow_pickle=False)


def _read(path: Path) -> Table:
    try:
        with gzip.open(path) as file:
            blocks = track(_blocks(file), "paraphrases of METEOR", -(-BYTES // BLOCK))
            hashes = np.concatenate([hash_lines(block) for block in blocks])
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): pip install --force-reinstall pycocoevalcap") from error
    if len(hashes) % 3 or not len(hashes):
        raise DataError(f"{path} is damaged (half of a pair): pip install --force-reinstall pycocoevalcap")
    return Table.of(hashes.reshape(-1, 3)[:, 1:])  # probability, phrase, paraphrase


def _blocks(file: gzip.GzipFile) -> Iterator[bytes]:
    """Whole lines, about BLOCK bytes at a time."""
    rest = b""
    while block := file.read(BLOCK):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        raise ValueError("its last line is incomplete")
