"""N-grams as integers: numbers are equal where words are equal, and nowhere else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from groundling.metrics.ngrams import ORDERS, SMALL, Corpus, Numbers, bag, distinct, grams, ranges, rank

sentences = st.lists(st.lists(st.sampled_from("abc"), max_size=6), max_size=5)
integers = st.lists(st.integers(0, 20), max_size=30).map(lambda x: np.array(x, np.int64))


@given(sentences)
def test_equal_numbers_mean_equal_words(corpus: list[list[str]]) -> None:
    for n, found in enumerate(grams(Numbers().read(corpus), [()] * ORDERS), start=1):
        expected = [(i, tuple(s[k : k + n])) for i, s in enumerate(corpus) for k in range(len(s) - n + 1)]
        assert found.sentence.tolist() == [i for i, _ in expected]
        pairs = set(zip(found.number.tolist(), (words for _, words in expected), strict=True))
        assert len(pairs) == len({number for number, _ in pairs}) == len({words for _, words in pairs})
        assert len(found.new) == len(pairs)


@given(sentences)
def test_a_bag_counts_each_sentence_apart(corpus: list[list[str]]) -> None:
    entries = bag(list(grams(Numbers().read(corpus), [()] * ORDERS)))
    totals = np.bincount(entries.sentence * ORDERS + entries.order, entries.times, len(corpus) * ORDERS)
    assert totals.reshape(-1, ORDERS).tolist() == [[max(len(s) - k, 0) for k in range(ORDERS)] for s in corpus]


@given(integers, integers, integers, st.sampled_from([1, SMALL]))
def test_ranks_are_places_in_tables_laid_end_to_end(
    keys: np.ndarray, one: np.ndarray, two: np.ndarray, apart: int
) -> None:
    keys, one, two = keys * apart, one * apart, two * apart  # small keys are looked up, great ones are sorted
    first = np.unique(one)
    second = np.setdiff1d(two, first)
    numbers, new = rank(keys, [first, second])
    laid = np.concatenate([first, second, new])
    assert laid[numbers].tolist() == keys.tolist()
    assert new.tolist() == sorted(set(keys.tolist()) - set(first.tolist()) - set(second.tolist()))


@given(integers)
def test_distinct_keys_are_sorted_and_counted(keys: np.ndarray) -> None:
    expected, times = np.unique(keys, return_counts=True)
    got, counted = distinct(keys)
    assert (got.tolist(), counted.tolist()) == (expected.tolist(), times.tolist())


def test_ranges_by_hand() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_blocks_are_the_corpus() -> None:
    said = [["a"] * (i % 4) for i in range(2500)]
    references = [[["b"] * (i % 3), ["a"]][: 1 + i % 2] for i in range(2500)]
    corpus = Corpus.of(said, references, Numbers())
    blocks = list(corpus.blocks())
    assert [len(b) for b in blocks] == [1024, 1024, 452]
    for part in ("hypotheses", "references"):
        whole, pieces = getattr(corpus, part), [getattr(b, part) for b in blocks]
        assert np.concatenate([p.words for p in pieces]).tolist() == whole.words.tolist()
        assert np.concatenate([p.lengths for p in pieces]).tolist() == whole.lengths.tolist()
