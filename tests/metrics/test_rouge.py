"""ROUGE-L: by hand, against the published numbers, and its longest common subsequence against the usual table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.errors import DataError
from groundling.metrics.ngrams import Corpus, Numbers
from groundling.metrics.rouge import _bits, _common, _lcs, rouge_l

VECTORS = Path(__file__).parent.parent / "vectors"


def test_rouge_by_hand() -> None:
    """LCS("a b c d", "a c d e f") = 3: P = 3/4, R = 3/5; F = 2.44 P R / (R + 1.44 P)."""
    score = rouge_l([list("abcd")], [[list("acdef")]])[0]
    assert score == pytest.approx(2.44 * 0.75 * 0.6 / (0.6 + 1.44 * 0.75), rel=1e-12)


def test_precision_and_recall_are_taken_from_different_references() -> None:
    """P = 3/4 from the long reference, R = 1/1 from the short one."""
    score = rouge_l([list("abcd")], [[list("abcxyzuvw"), list("d")]])[0]
    assert score == pytest.approx(2.44 * 0.75 / (1 + 1.44 * 0.75), rel=1e-12)


def test_numbers_are_the_published_ones() -> None:
    case: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "captions_s.json.gz").read_bytes()))
    values = rouge_l(
        [h.split(" ") for h in case["tokenised_hypotheses"]],
        [[r.split(" ") for r in refs] for refs in case["tokenised_references"]],
    )
    np.testing.assert_allclose(values, case["expected"]["per_image"]["ROUGE_L"], rtol=0, atol=1e-9)
    assert values.mean() == pytest.approx(case["expected"]["overall"]["ROUGE_L"], abs=1e-9)


def test_texts_without_words_are_one_empty_word() -> None:
    assert rouge_l([[], [], ["a"]], [[[]], [["a"]], [[]]]).tolist() == [1, 0, 0]


def test_an_image_without_references_is_an_error() -> None:
    with pytest.raises(ValueError, match="image 0 has no reference"):
        rouge_l([["a"]], [[]])


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=80), st.lists(st.sampled_from("abcd"), max_size=80))
def test_the_longest_common_subsequence_is_that_of_the_usual_table(one: list[str], other: list[str]) -> None:
    row = [0] * (len(one) + 1)
    for word in other:
        above = row[:]
        for i, mine in enumerate(one):
            row[i + 1] = above[i] + 1 if mine == word else max(row[i], above[i + 1])
    assert _lcs(_bits(one), len(one), other) == row[-1]
    corpus = Corpus.of([["x"], one, []], [[["y"]], [["x"], other], [["y"]]], Numbers())
    common = _common(corpus, np.repeat(corpus.first, corpus.per_image + 1))
    assert common.tolist()[2:5] == [len(one), 0, row[-1]]


def test_a_caption_beyond_all_measure_is_refused() -> None:
    with pytest.raises(DataError, match="a caption of 40,000 words"):
        rouge_l([["dog"] * 40_000], [[["cat", "dog"] * 10_000]])
