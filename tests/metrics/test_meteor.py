"""METEOR against the jar's numbers, against a value by hand, and against the jar itself where there is Java."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from groundling.errors import MissingExtra
from groundling.metrics import meteor as package
from groundling.metrics.meteor import meteor
from groundling.metrics.meteor.align import Match, Pair, align, chunks
from groundling.metrics.meteor.lexicon import java_hash
from groundling.metrics.meteor.normalise import tokens

pytest.importorskip("pycocoevalcap")

VECTORS = Path(__file__).parent.parent / "vectors" / "captions_s.json.gz"


def test_the_jars_numbers_per_image_and_for_the_corpus() -> None:
    with gzip.open(VECTORS) as file:
        vectors = json.load(file)
    found = meteor(vectors["tokenised_hypotheses"], vectors["tokenised_references"], vectors["ids"])
    np.testing.assert_allclose(found.per_item(), vectors["expected"]["per_image"]["METEOR"], rtol=0, atol=1e-9)
    assert found.score().value == pytest.approx(vectors["expected"]["overall"]["METEOR"], abs=1e-9)


def test_a_value_by_hand() -> None:
    """Caption "a dog", reference "a cat": "a" matches, a function word, weight 1/4; the other words weigh 3/4.

    P = R = (1/4) / (3/4 + 1/4) = 1/4 = F; one chunk of one match: penalty 0.6 * 1; score 1/4 * 0.4.
    """
    assert meteor(["a dog"], [["a cat"]]).score().value == pytest.approx(0.1)


def test_the_same_sentence_scores_one() -> None:
    assert meteor(["a dog runs on the beach"], [["no", "a dog runs on the beach"]]).score().value == 1.0


@pytest.mark.parametrize(("said", "true"), [("", "a dog"), ("a dog", ""), ("", ""), ("kite", "boat")])
def test_nothing_in_common_scores_zero(said: str, true: str) -> None:
    assert meteor([said], [[true]]).score().value == 0.0


def test_stems_synonyms_and_paraphrases_match() -> None:
    for said, true in (("wetsuits", "wetsuit"), ("couch", "sofa"), ("all of a sudden", "suddenly")):
        assert meteor([said], [[true]]).score().value > 0.5, (said, true)


def test_the_corpus_score_is_that_of_the_summed_statistics_not_a_mean() -> None:
    both = meteor(["a dog runs", "x"], [["a dog runs"], ["a very long reference that nothing matches"]])
    assert both.score().value != pytest.approx(both.per_item().mean(), abs=0.01)


def match(start: int, said: int, kind: int = 0) -> Match:
    return Match(start, 1, said, 1, kind)


def test_chunks_are_runs_in_both_sentences() -> None:
    assert chunks([match(0, 0), match(1, 1), match(2, 3), match(4, 4)]) == 3


def test_of_equally_many_matches_the_fewest_chunks_are_taken() -> None:
    """Reference "a b", caption "a x a b": the second "a" makes one chunk with "b"."""
    pair = Pair(["a", "x", "a", "b"], ["a", "b"], [[match(0, 0), match(0, 2)], [match(1, 3)]])
    assert align([pair]) == [[match(0, 2), match(1, 3)]]


def test_sentences_of_more_than_64_words_are_aligned_alike() -> None:
    """Padding both sentences with words that match nothing changes the places of the matches, not their number."""
    said, true = "a dog and a ball and a dog", "a ball and a dog and a cat"
    words = package.lexicon()
    fill = [f"zq{i}" for i in range(70)]
    short, long = (
        package.pair(tokens(said, {}) + extra, tokens(true, {}) + extra[::-1], words, NO_PARAPHRASES)
        for extra in ([], fill)
    )
    found, expected = align([long])[0], align([short])[0]
    assert [m for m in found if m.start < 8] == expected


class _None:
    def within(self, words: list[str], other: list[str]) -> list[tuple[int, int, int, int]]:
        return []


NO_PARAPHRASES = _None()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a t-shirt and jeans", "a t shirt and jeans"),
        ("i 'm here", "i ' m here"),
        ("mr. smith", "mr. smith"),
        ("the end.", "the end ."),
        ("u.s. flag", "us flag"),
        ("1,000 dogs , cats", "1,000 dogs , cats"),
        ("wait ... what", "wait ... what"),
        ("50% off", "50 % off"),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert tokens(text, package.lexicon().prefixes) == expected.split()


def test_words_are_compared_as_java_does() -> None:
    """31 * 65 + 97 = 31 * 66 + 66: the classic collision."""
    assert java_hash("Aa") == java_hash("BB") == 2112


def test_without_the_word_lists_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    package.lexicon.cache_clear()
    with pytest.raises(MissingExtra, match=r"groundling\[score\]"):
        meteor(["a"], [["a"]])
    package.lexicon.cache_clear()


@pytest.mark.java
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java here")
def test_the_jar_itself_agrees() -> None:
    said = ["two dogs running in the snow", "", "a man 's t-shirt", "a a a b b", "the the dog sat all of a sudden"]
    true = [["a pair of dogs run through snow", "dogs"], ["a cat"], ["the man in a shirt"], ["b a b a"], ["a dog sits"]]
    ours, jar = meteor(said, true), meteor(said, true, java=True)
    np.testing.assert_array_equal(ours.values, jar.values)
    np.testing.assert_array_equal(ours.per_item(), jar.per_item())
