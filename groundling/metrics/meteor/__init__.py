"""METEOR 1.5 (Denkowski and Lavie, 2014) for English, equal to the jar as coco-caption calls it: `-l en -norm`.

For m the weighted matched words of caption (t) and reference (r), content words weighing δ, function words 1 − δ:

    P = m_t / |t|,   R = m_r / |r|,   F = P R / (α P + (1 − α) R),   penalty = γ (chunks / matches)^β
    METEOR = F (1 − penalty)

The best reference counts. The corpus score is computed from the sums of these numbers, it is not a mean of scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

import numpy as np

from groundling.errors import DataError
from groundling.metrics.jars import jar_folder
from groundling.metrics.meteor.align import LONGEST, Match, align, chunks, pair
from groundling.metrics.meteor.lexicon import Lexicon
from groundling.metrics.meteor.normalise import tokens
from groundling.metrics.meteor.paraphrases import Paraphrases
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.progress import track

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase
KINDS = len(WEIGHTS)
BLOCK = 500  # images aligned at a time: memory stays flat

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
        found = mean * (1 - GAMMA * fragments**BETA)
    return np.asarray(np.maximum(np.nan_to_num(found, nan=0.0), 0.0))


@cache
def lexicon() -> Lexicon:
    return Lexicon(jar_folder("meteor") / "meteor-1.5.jar")


def _rows(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
    words = lexicon()
    said = [tokens(text.replace("|||", ""), words.prefixes) for text in hypotheses]
    true = [[tokens(text, words.prefixes) for text in of_image] for of_image in references]
    for sentence in (*said, *(r for of_image in true for r in of_image)):
        if len(sentence) > LONGEST:
            raise DataError(f"a caption of {len(sentence)} words: METEOR takes up to {LONGEST}")
    everything = (*said, *(r for of_image in true for r in of_image))
    paraphrases = Paraphrases(jar_folder("meteor") / "data" / "paraphrase-en.gz", everything)
    images = zip(said, true, strict=True)
    blocks = track(_blocks(images), "METEOR", -(-len(said) // BLOCK), quiet=len(said) < 2 * BLOCK)
    return np.concatenate([_best(block, words, paraphrases) for block in blocks])


Image = tuple[list[str], list[list[str]]]


def _blocks(images: Iterator[Image]) -> Iterator[list[Image]]:
    while block := list(islice(images, BLOCK)):
        yield block


def _best(block: Sequence[Image], words: Lexicon, paraphrases: Paraphrases) -> Array:
    """The statistics of each image of a block with its best reference; the first of equals."""
    pairs = [pair(said, reference, words, paraphrases) for said, true in block for reference in true]
    counts = [_count(p.caption, p.reference, m, words) for p, m in zip(pairs, align(pairs), strict=True)]
    rows = _unbroken(np.array(counts, np.float64))
    scores, best, first = score(rows), [], 0
    for _, true in block:
        best.append(first + int(np.argmax(scores[first : first + len(true)])))
        first += len(true)
    return np.asarray(rows[best])


def _unbroken(rows: Array) -> Array:
    """A reference that is said word for word is no chunk, alone or in a corpus."""
    whole = (rows[:, MATCHED] == rows[:, LENGTHS]).all(1) & (rows[:, CHUNKS] == 1)
    rows[whole, CHUNKS] = 0
    return rows


def _count(caption: list[str], reference: list[str], matches: Sequence[Match], words: Lexicon) -> list[float]:
    function = [[word in words.function_words for word in sentence] for sentence in (caption, reference)]
    by_kind = [[[0] * KINDS for _ in range(2)] for _ in range(2)]  # caption or reference, content or function, kind
    for match in matches:
        spans = range(match.said, match.said + match.words), range(match.start, match.start + match.length)
        for side, span in enumerate(spans):
            for i in span:
                by_kind[side][function[side][i]][match.kind] += 1
    matched = [sum(sum(kinds) for kinds in side) for side in by_kind]
    lengths, functions = [len(caption), len(reference)], [sum(side) for side in function]
    flat = [n for side in by_kind for kinds in side for n in kinds]
    return [*lengths, *functions, chunks(matches), *matched, *flat]
