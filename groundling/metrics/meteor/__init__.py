"""METEOR 1.5 (Denkowski and Lavie, 2014) for English, equal to the jar as coco-caption calls it: `-l en -norm`.

For m the weighted matched words of caption (t) and reference (r), content words weighing δ, function words 1 − δ:

    P = m_t / |t|,   R = m_r / |r|,   F = P R / (α P + (1 − α) R),   penalty = γ (chunks / matches)^β
    METEOR = F (1 − penalty)

The best reference counts. The corpus score is computed from the sums of these numbers, it is not a mean of scores.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

from groundling.errors import DataError
from groundling.metrics.jars import jar_folder
from groundling.metrics.meteor.align import LONGEST, align, chunks
from groundling.metrics.meteor.lexicon import Lexicon
from groundling.metrics.meteor.matches import Match, Matcher, Sentence
from groundling.metrics.meteor.normalise import tokens
from groundling.metrics.meteor.paraphrases import Table, open_table
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.progress import track

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase
KINDS = len(WEIGHTS)
BLOCK = 1000  # images aligned at a time: memory stays flat
MOST_MATCHES = 100_000  # of the words of a caption to those of a reference: real ones have hundreds
FEW = 2_000  # that a pair of sentences cannot have more than is seen by their lengths
TOGETHER = 1_000_000  # matches held at a time, at most

# columns of the statistics: lengths, function words, chunks, matched words; then matched content and function words
# by kind; of the caption first, then of the reference
LENGTHS, FUNCTIONS, CHUNKS, MATCHED, BY_KIND = slice(0, 2), slice(2, 4), 4, slice(5, 7), slice(7, 7 + 4 * KINDS)


def meteor(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], ids: Sequence[str] = (), *, java: bool = False
) -> Statistics:
    """METEOR of captions against their references, all tokenised as the other caption metrics do (`text.ptb`).

    `java` asks the jar itself instead, as a cross-check.
    """
    ids = tuple(ids) or tuple(str(i) for i in range(len(hypotheses)))
    if java:
        from groundling.metrics.meteor.java import ask_the_jar

        rows = _unbroken(ask_the_jar(hypotheses, references))
    else:
        rows = _rows(hypotheses, references)
    about = signature("meteor-1.5", lang="en", norm="yes", by="jar" if java else "groundling", n=len(ids))
    return Statistics("METEOR", about, ids, rows, score)


def score(sums: Array) -> Array:
    """Summed statistics (..., s) -> METEOR."""
    lengths, functions, matched = sums[..., LENGTHS], sums[..., FUNCTIONS], sums[..., MATCHED]
    by_kind = sums[..., BY_KIND].reshape(*sums.shape[:-1], 2, 2, KINDS) @ np.array(WEIGHTS)
    weighed = by_kind @ np.array([DELTA, 1 - DELTA])  # (..., 2), of caption and reference
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = np.moveaxis(weighed / (DELTA * (lengths - functions) + (1 - DELTA) * functions), -1, 0)
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragments = sums[..., CHUNKS] / (matched.sum(-1) / 2)
        scores = mean * (1 - GAMMA * fragments**BETA)
    return np.asarray(np.maximum(np.nan_to_num(scores, nan=0.0), 0.0))


@cache
def _lexicon() -> Lexicon:
    return Lexicon(jar_folder("meteor") / "meteor-1.5.jar")


def _rows(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
    lexicon, table = _lexicon(), open_table(jar_folder("meteor") / "data" / "paraphrase-en.gz")
    firsts = range(0, len(hypotheses), BLOCK)
    rows = [np.zeros((0, BY_KIND.stop))]
    for i in track(firsts, "METEOR", len(firsts), quiet=len(firsts) < 3):
        with _uncollected():
            captions = [_words(text.replace("|||", ""), lexicon) for text in hypotheses[i : i + BLOCK]]
            true = [[_words(text, lexicon) for text in texts] for texts in references[i : i + BLOCK]]
            rows.append(_best(captions, true, lexicon, table))
    return np.concatenate(rows)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for cycles: matches make none, but by their number set it off again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _words(text: str, lexicon: Lexicon) -> list[str]:
    words = tokens(text, lexicon.prefixes)
    if len(words) > LONGEST:
        raise DataError(f"a caption of {len(words)} words, {text[:40]!r}…: METEOR takes up to {LONGEST}")
    return words


def _best(hypotheses: list[list[str]], true: list[list[list[str]]], lexicon: Lexicon, table: Table) -> Array:
    """The statistics of each image with its best reference; the first of equals."""
    matcher = Matcher([*hypotheses, *(words for texts in true for words in texts)], lexicon, table)
    captions, references = matcher.sentences[: len(hypotheses)], matcher.sentences[len(hypotheses) :]
    counts = [len(texts) for texts in true]
    pairs = list(zip((c for c, n in zip(captions, counts, strict=True) for _ in range(n)), references, strict=True))
    rows = _unbroken(
        np.array(
            [_count(*pair, matches) for some in _portions(pairs, matcher) for pair, matches in _aligned(some, matcher)]
        )
    )
    scores, best, first = score(rows), [], 0
    for n in counts:
        best.append(first + int(np.argmax(scores[first : first + n])))
        first += n
    return np.asarray(rows[best])


Pair = tuple[Sentence, Sentence]


def _portions(pairs: Sequence[Pair], matcher: Matcher) -> Iterator[list[Pair]]:
    """The pairs in order, so many together that their matches fit into memory; DataError for a pair of too many."""
    portion: list[Pair] = []
    total = 0
    for caption, reference in pairs:
        count = 2 * len(caption.words) * len(reference.words)  # a word matches another in two ways at most
        count = count if count <= FEW else matcher.count(caption, reference)
        if count > MOST_MATCHES:
            raise DataError(
                f"a caption of {len(caption.words)} words, {' '.join(caption.words[:8])!r}…, can be matched to its "
                f"reference in {count:,} ways: METEOR takes up to {MOST_MATCHES:,}; does a word repeat without end?"
            )
        if portion and total + count > TOGETHER:
            yield portion
            portion, total = [], 0
        portion.append((caption, reference))
        total += count
    if portion:
        yield portion


def _aligned(pairs: Sequence[Pair], matcher: Matcher) -> Iterator[tuple[Pair, list[Match]]]:
    return zip(pairs, align([matcher.match(caption, reference) for caption, reference in pairs]), strict=True)


def _unbroken(rows: Array) -> Array:
    """A caption that is equal to its reference has no chunk, alone or in a corpus."""
    identical = (rows[:, MATCHED] == rows[:, LENGTHS]).all(1) & (rows[:, CHUNKS] == 1)
    rows[identical, CHUNKS] = 0
    return rows


def _count(caption: Sentence, reference: Sentence, matches: Sequence[Match]) -> list[float]:
    by_kind = [0.0] * (4 * KINDS)  # caption or reference, content or function, kind
    for start, length, offset, words, kind in matches:
        for i in range(offset, offset + words):
            by_kind[kind + KINDS * caption.function[i]] += 1
        for j in range(start, start + length):
            by_kind[kind + KINDS * reference.function[j] + 2 * KINDS] += 1
    lengths = len(caption.words), len(reference.words)
    functions = sum(caption.function), sum(reference.function)
    matched = sum(by_kind[: 2 * KINDS]), sum(by_kind[2 * KINDS :])
    return [*lengths, *functions, chunks(matches), *matched, *by_kind]
