"""METEOR 1.5 (Denkowski and Lavie, 2014) for English, equal to the jar as coco-caption calls it: `-l en -norm`.

For m the weighted matched words of caption (t) and reference (r), content words weighing δ, function words 1 − δ:

    P = m_t / |t|,   R = m_r / |r|,   F = P R / (α P + (1 − α) R),   penalty = γ (chunks / matches)^β
    METEOR = F (1 − penalty)

The best reference counts. The corpus score is computed from the sums of these numbers, it is not a mean of scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from groundling.errors import DataError
from groundling.metrics.jars import jar_folder
from groundling.metrics.meteor.align import LONGEST, align, chunks
from groundling.metrics.meteor.lexicon import Lexicon
from groundling.metrics.meteor.matches import Corpus, Ints, Matcher, Matches, expanded
from groundling.metrics.meteor.normalise import tokens
from groundling.metrics.meteor.paraphrases import Table, open_table
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.progress import track

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase
KINDS = len(WEIGHTS)
BLOCK = 300_000  # words looked at together: memory stays flat
MOST_MATCHES = 100_000  # of the words of a caption to those of a reference: real ones have hundreds
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
    rows, captions, true, count = [np.zeros((0, BY_KIND.stop))], [], [], 0
    both = zip(hypotheses, references, strict=True)
    for caption, texts in track(both, "METEOR", len(hypotheses), quiet=len(hypotheses) < 10_000):
        captions.append(_words(caption.replace("|||", ""), lexicon))
        true.append([_words(text, lexicon) for text in texts])
        count += len(captions[-1]) + sum(map(len, true[-1]))
        if count > BLOCK:
            rows.append(_best(captions, true, lexicon, table))
            captions, true, count = [], [], 0
    if captions:
        rows.append(_best(captions, true, lexicon, table))
    return np.concatenate(rows)


def _words(text: str, lexicon: Lexicon) -> list[str]:
    words = tokens(text, lexicon.prefixes)
    if len(words) > LONGEST:
        raise DataError(f"a caption of {len(words)} words, {text[:40]!r}…: METEOR takes up to {LONGEST}")
    return words


def _best(hypotheses: list[list[str]], true: list[list[list[str]]], lexicon: Lexicon, table: Table) -> Array:
    """The statistics of each image with its best reference; the first of equals."""
    sentences = [*hypotheses, *(words for texts in true for words in texts)]
    corpus = Corpus(sentences, lexicon)
    counts = np.array([len(texts) for texts in true])
    captions = np.repeat(np.arange(len(true)), counts)
    references = np.arange(len(hypotheses), len(sentences))
    equal = np.array([sentences[c] == sentences[r] for c, r in zip(captions, references, strict=True)], bool)
    matcher = Matcher(corpus, len(hypotheses), lexicon, table)
    rows = [
        _counted(matcher.match(captions[some], references[some], equal[some]), corpus, captions[some], references[some])
        for some in _portions(matcher.count(captions, references), captions, sentences)
    ]
    values = _unbroken(np.concatenate(rows))
    scores, firsts = score(values), np.cumsum(counts) - counts
    best = [first + int(np.argmax(scores[first : first + n])) for first, n in zip(firsts, counts, strict=True)]
    return np.asarray(values[best])


def _portions(counts: Ints, captions: Ints, sentences: list[list[str]]) -> Iterator[slice]:
    """The pairs in order, so many together that their matches fit into memory; DataError for a pair of too many."""
    if (counts > MOST_MATCHES).any():
        pair = int(np.argmax(counts > MOST_MATCHES))
        words = sentences[captions[pair]]
        raise DataError(
            f"a caption of {len(words)} words, {' '.join(words[:8])!r}…, can be matched to its reference in "
            f"{counts[pair]:,} ways: METEOR takes up to {MOST_MATCHES:,}; does a word repeat without end?"
        )
    first = 0
    while first < len(counts):
        size = max(1, int(np.searchsorted(np.cumsum(counts[first : first + TOGETHER]), TOGETHER, "right")))
        yield slice(first, first + size)
        first += size


def _counted(matches: Matches, corpus: Corpus, captions: Ints, references: Ints) -> Array:
    """The statistics of each pair."""
    lengths, true = corpus.lengths[captions], corpus.lengths[references]
    chosen = matches.of(align(matches, lengths, true))
    functions = np.bincount(corpus.sentence[corpus.function], minlength=len(corpus.lengths))
    by_kind = []  # caption or reference; content or function; kind
    for sentences, start, count in (
        (captions, chosen.offset, chosen.words),
        (references, chosen.start, chosen.length),
    ):
        match, word = expanded(corpus.firsts[sentences[chosen.pair]] + start, count)
        column = chosen.kind[match] + KINDS * corpus.function[word]
        cells = np.bincount(chosen.pair[match] * 2 * KINDS + column, minlength=len(captions) * 2 * KINDS)
        by_kind.append(cells.reshape(len(captions), 2 * KINDS))
    matched = [cells.sum(1) for cells in by_kind]
    columns = [lengths, true, functions[captions], functions[references], chunks(chosen, len(captions)), *matched]
    return np.column_stack([*columns, *by_kind]).astype(np.float64)


def _unbroken(rows: Array) -> Array:
    """A caption that is equal to its reference has no chunk, alone or in a corpus."""
    identical = (rows[:, MATCHED] == rows[:, LENGTHS]).all(1) & (rows[:, CHUNKS] == 1)
    rows[identical, CHUNKS] = 0
    return rows
