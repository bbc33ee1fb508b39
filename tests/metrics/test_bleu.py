"""BLEU: by hand, against the published numbers, and in odd corpora."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.metrics.bleu import bleu, counts
from groundling.metrics.ngrams import Corpus, Numbers

VECTORS = Path(__file__).parent.parent / "vectors"


def of(hypotheses: list[list[str]], references: list[list[list[str]]]) -> Any:
    return counts(Corpus.of(hypotheses, references, Numbers()))


def test_bleu_by_hand() -> None:
    """h = "the the cat" against "the cat sat on": "the" counts once, so c = (2, 1); g = (3, 2); q = 3/4."""
    rows = of([["the", "the", "cat"]], [[["the", "cat", "sat", "on"]]])
    assert rows.tolist() == [[3, 4, 3, 2, 1, 0, 2, 1, 0, 0]]
    penalty = math.exp(1 - 4 / 3)
    assert bleu(rows[0], 1) == pytest.approx(2 / 3 * penalty, rel=1e-8)
    assert bleu(rows[0], 2) == pytest.approx(math.sqrt(2 / 3 * 1 / 2) * penalty, rel=1e-8)
    assert bleu(rows[0], 3) < 1e-4


def test_a_word_counts_as_often_as_in_the_reference_that_has_it_most() -> None:
    rows = of([["a", "a", "a"]], [[["a", "b", "c"], ["a", "a", "b"]]])
    assert rows[0, 6] == 2


def test_of_two_references_equally_close_the_shorter_gives_the_length() -> None:
    assert of([["x"] * 4], [[["a"] * 6, ["a"] * 2, ["a"] * 9]])[0, 1] == 2


def test_numbers_are_the_published_ones() -> None:
    case: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "captions_s.json.gz").read_bytes()))
    rows = of(
        [h.split() for h in case["tokenised_hypotheses"]],
        [[r.split() for r in refs] for refs in case["tokenised_references"]],
    )
    for order in range(1, 5):
        expected = case["expected"]["per_image"][f"Bleu_{order}"]
        np.testing.assert_allclose(bleu(rows, order), expected, rtol=0, atol=1e-9)
        assert bleu(rows.sum(0), order) == pytest.approx(case["expected"]["overall"][f"Bleu_{order}"], abs=1e-9)


def test_silence_scores_zero_and_an_empty_corpus_has_no_rows() -> None:
    rows = of([[], ["a"]], [[["a"]], [[]]])
    assert bleu(rows, 4).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert of([], []).shape == (0, 10)


def test_an_image_without_references_is_an_error() -> None:
    with pytest.raises(ValueError, match="image 1 has no reference"):
        of([["a"], ["b"]], [[["a"]], []])
    with pytest.raises(ValueError, match="2 hypotheses for 1"):
        of([["a"], ["b"]], [[["a"]]])


sentence = st.lists(st.sampled_from("abc"), max_size=7)


@given(st.lists(st.tuples(sentence, st.lists(sentence, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_counts_are_those_of_dictionaries(corpus: Any) -> None:
    rows = of([h for h, _ in corpus], [r for _, r in corpus])
    for row, (hypothesis, references) in zip(rows, corpus, strict=True):
        closest = min((abs(len(r) - len(hypothesis)), len(r)) for r in references)[1]
        expected = [len(hypothesis), closest, *(max(len(hypothesis) - k, 0) for k in range(4))]
        for n in range(1, 5):
            most: Counter[Any] = Counter()
            for r in references:
                most |= Counter(tuple(r[i : i + n]) for i in range(len(r) - n + 1))
            counts = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1))
            expected.append((counts & most).total())
        assert row.tolist() == expected
