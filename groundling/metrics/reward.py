"""CIDEr-D, and BLEU, as the reward of self-critical training: sampled word ids in, one number per sample out.

Rennie et al., CVPR 2017. The words are vocabulary ids; a caption goes up to and including the first end id, which
counts as a word, in references as in samples. References are turned into vectors once, for the whole training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from groundling.metrics.bleu import bleu, counts
from groundling.metrics.cider import DocumentFrequency, Floats, References
from groundling.metrics.ngrams import Corpus, Ints, Sentences
from groundling.types import EOS

MOST_WORDS = 1 << 31


class CiderReward:
    """CIDEr-D of sampled captions against the references of their images.

    `references[i]` are the captions of image i as ids, with or without the end id. Document frequencies are those of
    the references, unless `df` is given: then `words[id]` are the words that it knows the ids by, `words[end]` among
    them (`document_frequency(..., end="<eos>")`, or `groundling df --end`).
    """

    def __init__(
        self,
        references: Sequence[Sequence[Sequence[int]]],
        df: DocumentFrequency | None = None,
        words: Sequence[str] | None = None,
        end: int = EOS,
    ) -> None:
        if (df is None) != (words is None):
            raise ValueError("document frequencies are of words: give `df` and `words` together, or neither")
        self.end, self._images = end, len(references)
        self._numbers = None if df is None or words is None else _numbers_of(words, df, end)
        captions = [_to_end(ids, end) for r in references for ids in r]
        lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        flat = np.fromiter(chain.from_iterable(captions), np.int64, int(lengths.sum()))
        sentences = Sentences(self._numbered(flat), lengths)
        per_image = [len(r) for r in references]
        if 0 in per_image:
            raise ValueError(f"image {per_image.index(0)} has no reference")
        image = np.repeat(np.arange(len(references)), per_image)
        df = df or DocumentFrequency.of_numbers(sentences, image, len(references))
        self._references = References(sentences, image, df)

    def __call__(self, samples: Ints, image: Ints) -> Floats:
        """(S, T) ids, (S,) image of each sample -> (S,) CIDEr-D, 0 to 10. What follows the first end id is ignored."""
        samples, image = np.asarray(samples, np.int64), np.asarray(image, np.int64)
        if samples.ndim != 2 or image.shape != samples.shape[:1]:
            raise ValueError(f"samples must be (S, T) and image (S,), got {samples.shape} and {image.shape}")
        if len(image) and not 0 <= image.min() <= image.max() < self._images:
            raise ValueError(f"images are numbered 0 to {self._images - 1}, got {image.min()} to {image.max()}")
        return self._references.score(self._numbered(samples), _lengths(samples, self.end), image)

    def _numbered(self, ids: Ints) -> Ints:
        limit = MOST_WORDS if self._numbers is None else len(self._numbers)
        if ids.size and not 0 <= ids.min() <= ids.max() < limit:
            raise ValueError(f"ids of words are 0 to {limit - 1}, got {ids.min()} to {ids.max()}")
        return ids if self._numbers is None else self._numbers[ids]


class BleuReward:
    """BLEU-4 of sampled captions, each by itself, against the references of their images; see `metrics.bleu`."""

    def __init__(self, references: Sequence[Sequence[Sequence[int]]], end: int = EOS) -> None:
        self.end = end
        self._references = [[_to_end(ids, end) for ids in captions] for captions in references]
        self._per_image = np.array([len(captions) for captions in references])
        if 0 in self._per_image:
            raise ValueError(f"image {self._per_image.tolist().index(0)} has no reference")

    def __call__(self, samples: Ints, image: Ints) -> Floats:
        """(S, T) ids, (S,) image of each sample -> (S,) BLEU-4, 0 to 1. What follows the first end id is ignored."""
        theirs = [ids for i in image.tolist() for ids in self._references[i]]
        lengths = np.array([len(ids) for ids in theirs])
        words = np.fromiter(chain.from_iterable(theirs), np.int64, int(lengths.sum()))
        corpus = Corpus(_until_end(samples, self.end), Sentences(words, lengths), self._per_image[image])
        return bleu(counts(corpus), 4)


def _until_end(samples: Ints, end: int) -> Sentences:
    """Rows (S, T), each up to and including its first end."""
    lengths = _lengths(samples, end)
    return Sentences(samples[np.arange(samples.shape[1]) < lengths[:, None]], lengths)


def _lengths(samples: Ints, end: int) -> Ints:
    """Words of each row up to and including its first end."""
    ends = np.column_stack([samples == end, np.ones(len(samples), bool)]).argmax(1)
    return np.asarray(np.minimum(ends + 1, samples.shape[1]), np.int64)


def _to_end(ids: Sequence[int], end: int) -> list[int]:
    """A caption with its end, and nothing behind it."""
    ids = list(ids)
    return ids[: ids.index(end) + 1] if end in ids else [*ids, end]


def _numbers_of(words: Sequence[str], df: DocumentFrequency, end: int) -> Ints:
    """From vocabulary ids to the numbers that the table uses; words that it does not know are numbered behind."""
    if not 0 <= end < len(words):
        raise ValueError(f"the end id {end} is not among {len(words)} words")
    if words[end] not in df.vocabulary:
        raise ValueError(
            f"the document frequencies do not count the end, {words[end]!r}, as a word; make them with "
            f"document_frequency(references, end={words[end]!r}), or with `groundling df --end`"
        )
    known, behind = df.vocabulary, len(df.words)
    return np.array([known.get(word, behind + i) for i, word in enumerate(words)], np.int64)
