"""METEOR's paraphrase table: five million pairs of phrases. Only those that a corpus can use are ever looked at.

The table is read once and kept as hashes in the user's cache folder: phrases sorted by hash, each with the hashes of
its paraphrases in the order of the table. A corpus then finds its pairs by two binary searches, without a copy of the
table in memory.
"""

from __future__ import annotations

import gzip
import logging
import os
import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.jars import cache_folder
from groundling.progress import track

log = logging.getLogger(__name__)

LONGEST = 7  # words of a phrase
LAYOUT = 1

Phrase = tuple[str, ...]
Hashes = NDArray[np.uint64]


class Paraphrases:
    """The pairs (A, B) of the table with both A and B among the phrases of a corpus, by A, in the table's order."""

    def __init__(self, table: Path, sentences: Iterable[list[str]]) -> None:
        phrases = {_hash(" ".join(p).encode()): p for words in sentences for p in _phrases(words)}
        keys, starts, others = _index(table)
        wanted = np.fromiter(phrases, np.uint64, len(phrases))
        wanted.sort()
        place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        self.of: dict[Phrase, list[Phrase]] = {}
        for key, row in zip(wanted[keys[place] == wanted], place[keys[place] == wanted], strict=True):
            mine = others[int(starts[row]) : int(starts[row + 1])]
            at = np.searchsorted(wanted, mine).clip(max=len(wanted) - 1)
            found = [phrases[int(h)] for h in mine[wanted[at] == mine]]
            if found:
                self.of[phrases[int(key)]] = found
        self.longest = max(map(len, self.of), default=0)

    def within(self, words: list[str], other: list[str]) -> Iterator[tuple[int, int, int, int]]:
        """(start, length) of a phrase in `words` and of a paraphrase of it in `other`, in METEOR's order."""
        for start in range(len(words)):
            for length in range(1, min(self.longest, len(words) - start) + 1):
                for paraphrase in self.of.get(tuple(words[start : start + length]), ()):
                    n = len(paraphrase)
                    for at in range(len(other) - n + 1):
                        if other[at] == paraphrase[0] and tuple(other[at : at + n]) == paraphrase:
                            yield start, length, at, n


def _phrases(words: list[str]) -> Iterator[Phrase]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
            yield tuple(words[start:end])


def _hash(phrase: bytes) -> int:
    return int.from_bytes(blake2b(phrase, digest_size=8).digest(), "little")


# ---------------------------------------------------------------- the table on disk


def _index(table: Path) -> tuple[Hashes, NDArray[np.int64], Hashes]:
    """(phrases, where the paraphrases of each begin, paraphrases), memory-mapped; built on first use."""
    names = [f"meteor-{_stamp(table)}-{part}.npy" for part in ("keys", "starts", "others")]
    paths = [cache_folder() / name for name in names]
    found = _opened(paths)
    if found is None:
        _build(table, paths)
        found = _opened(paths)
    if found is None:
        raise DataError(f"{paths[0].parent} does not keep what is written there; set XDG_CACHE_HOME to another folder")
    return found


def _stamp(table: Path) -> str:
    try:
        with open(table, "rb") as file:
            digest = blake2b(digest_size=8)
            while block := file.read(1 << 20):
                digest.update(block)
            return f"{LAYOUT}-{digest.hexdigest()}"
    except OSError as error:
        raise DataError(f"{table}: {error.strerror}; pip install --force-reinstall pycocoevalcap") from error


def _opened(paths: list[Path]) -> tuple[Hashes, NDArray[np.int64], Hashes] | None:
    try:
        keys, starts, others = (np.load(path, mmap_mode="r", allow_pickle=False) for path in paths)
        if len(starts) == len(keys) + 1 and int(starts[-1]) == len(others) > 0:
            return keys, starts, others
    except (OSError, ValueError, EOFError):
        pass
    return None


def _build(table: Path, paths: list[Path]) -> None:
    log.info("METEOR: indexing the paraphrase table, once")
    keys, counts, others = [], [], []
    try:
        with gzip.open(table) as file:
            rows = zip(file, file, file, strict=True)  # probability, phrase, paraphrase: a line each
            pairs = ((phrase.strip(), paraphrase.strip()) for _, phrase, paraphrase in rows)
            for phrase, group in groupby(track(pairs, "paraphrases of METEOR", 5_274_084), key=lambda pair: pair[0]):
                mine = [_hash(paraphrase) for _, paraphrase in group]
                keys.append(_hash(phrase))
                counts.append(len(mine))
                others.append(np.array(mine, np.uint64))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{table} is damaged ({error}): pip install --force-reinstall pycocoevalcap") from error
    order = np.argsort(np.array(keys, np.uint64), kind="stable")
    arrays = [
        np.array(keys, np.uint64)[order],
        np.concatenate([[0], np.cumsum(np.array(counts)[order])]),
        np.concatenate([others[i] for i in order]),
    ]
    for path, array in zip(paths, arrays, strict=True):
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        with open(partial, "wb") as file:
            np.save(file, array, allow_pickle=False)
        partial.replace(path)
