"""The form of `grounding`."""

from __future__ import annotations

import pytest

from groundling.evaluation.caption_score import score
from groundling.evaluation.evidence import PhraseEvidence


def phrase(similarity: float, probability: float | None) -> PhraseEvidence:
    return PhraseEvidence("a dog", (0, 5), "dog", "dog", "NN", ("a", "dog"), similarity, probability, ())


def test_it_is_the_geometric_mean_of_phrases_and_words() -> None:
    """Phrases 0.9 and 0.4: √0.36 = 0.6. Words 0.15: √(0.6 · 0.15) = 0.3."""
    two = [phrase(0.1, 0.9), phrase(0.1, 0.4)]
    assert score(two) == pytest.approx(0.6)
    assert score(two, [0.15]) == pytest.approx(0.3)
    assert score([], [0.15]) == pytest.approx(0.15)
    assert score([phrase(0.1, 0.0)]) == pytest.approx(1e-3)


def test_without_a_calibration_similarity_counts_and_without_words_nothing() -> None:
    assert score([phrase(0.5, None), phrase(-0.5, None)]) == 0.25
    assert score([]) == 0
