"""N-grams as integers: numbers are equal where words are equal, and nowhere else."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from groundling.metrics.ngrams import ORDERS, SMALL, Corpus, Numbers, bag, distinct, grams, in_turn, ranges, rank
from groundling.text.ptb import cut

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


items = st.lists(st.tuples(sentences.map(lambda x: [w for s in x for w in s]), sentences.filter(len)), max_size=4)


@given(items)
def test_entries_count_every_n_gram_and_pair_hypotheses_with_their_references(
    corpus: list[tuple[list[str], list[list[str]]]],
) -> None:
    laid = [s for caption, refs in corpus for s in (caption, *refs)]
    image = [i for i, (_, refs) in enumerate(corpus) for _ in range(len(refs) + 1)]
    first = [image.index(i) for i in range(len(corpus))]
    numbers = Numbers()
    for n, found in enumerate(Corpus.of([s for s, _ in corpus], [r for _, r in corpus], numbers).entries, start=1):
        expected = [Counter(tuple(s[k : k + n]) for k in range(len(s) - n + 1)) for s in laid]
        rows = list(zip(found.sentence.tolist(), found.gram.tolist(), found.times.tolist(), strict=True))
        assert len({(s, g) for s, g, _ in rows}) == len(rows) == sum(map(len, expected))
        assert sorted((s, t) for s, _, t in rows) == sorted((s, t) for s, c in enumerate(expected) for t in c.values())
        pairs = {(found.sentence[a], found.sentence[b]) for a, b in zip(found.hypothesis, found.other, strict=True)}
        assert (found.gram[found.hypothesis] == found.gram[found.other]).all()
        assert {(a, b) for a, b in pairs if a not in first or b in first or image[a] != image[b]} == set()
        shared = sum(len(expected[first[image[s]]].keys() & c.keys()) for s, c in enumerate(expected) if s not in first)
        assert len(found.hypothesis) == shared
        documents = [set().union(*(c for s, c in enumerate(expected) if image[s] == i and s not in first))
                     for i in range(len(corpus))]  # fmt: skip
        assert found.images.sum() == sum(map(len, documents))


@given(integers, st.sampled_from([1, 1 << 15, 1 << 57]))
def test_in_turn_keeps_the_order_of_equal_keys(keys: np.ndarray, apart: int) -> None:
    assert in_turn(keys * apart).tolist() == np.argsort(keys, kind="stable").tolist()


@given(st.lists(st.sampled_from(["", "a", "a b", "b a a", "a\u00a0b", "a  b", "a\rb", "\r", " a"]), max_size=6))
def test_texts_in_pieces_are_read_as_their_words(texts: list[str]) -> None:
    numbers = Numbers({"b": 0})
    found, expected = numbers.read_pieces(cut(texts)), [text.split() for text in texts]
    words = {number: word for word, number in numbers.items()}
    assert found.lengths.tolist() == [len(s) for s in expected]
    assert [words[number] for number in found.words.tolist()] == [word for s in expected for word in s]
