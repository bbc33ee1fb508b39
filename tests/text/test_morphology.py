from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.text.morphology import lemma, lemma_of

VECTORS = Path(__file__).parent.parent / "vectors"


def cases(name: str) -> list[tuple[str, str, str]]:
    with gzip.open(VECTORS / name) as file:
        return [(word, tag, lemma) for word, tag, lemma in json.load(file)["cases"]]


@pytest.mark.parametrize("name", ["lemma_word_tag.json.gz", "lemma_sample.json.gz"])
def test_lemmas_equal_those_of_stanford_morphology(name: str) -> None:
    """The first file covers words of captions; the second, also made with the jar, irregular and newspaper words."""
    wrong = [
        (word, tag, expected, lemma(word, tag)) for word, tag, expected in cases(name) if lemma(word, tag) != expected
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("word", "tag", "expected"),
    [
        ("stopped", "VBD", "stop"),  # a doubled letter is undone for verbs that double it
        ("rolling", "VBG", "roll"),  # and kept for those that have it
        ("baking", "VBG", "bake"),  # a silent e comes back
        ("loading", "VBG", "load"),  # where the spelling allows one
        ("Dogs", "NNS", "dog"),
        ("Dogs", "NNPS", "Dogs"),  # names stay as they are
        ("sky-blue-eyed", "VBN", "sky-blue-eye"),  # the last part of a hyphened word is inflected
        ("mothers-in-law", "NNS", "mother-in-law"),
        ("cafés", "NNS", "cafés"),  # letters that the rules do not know
        ("I", "PRP", "I"),
        ("", "NN", ""),
    ],
)
def test_a_rule_of_spelling(word: str, tag: str, expected: str) -> None:
    assert lemma(word, tag) == expected


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("man's", "man"),
        ("men", "man"),
        ("children", "child"),
        ("glasses", "glass"),
        ("running", "run"),
        ("building", "building"),
        ("striped", "striped"),
        ("sat", "sit"),
        ("an", "a"),
        ("his", "he"),
        ("don't", "do"),
        ("'s", "'"),
    ],
)
def test_a_token_without_context(token: str, expected: str) -> None:
    assert lemma_of(token) == expected


def test_tokens_of_the_grounding_vectors_get_the_lemmas_that_their_tables_hold() -> None:
    for path in sorted(VECTORS.glob("grounding_*")):
        with gzip.open(path) as file:
            table = json.load(file)["lemma"]
        assert {word: lemma_of(word) for word in table} == table


@given(st.text(max_size=20), st.sampled_from(["NN", "NNS", "NNP", "VB", "VBD", "VBG", "PRP", "MD", "JJ", ""]))
def test_any_string_has_a_lemma(word: str, tag: str) -> None:
    assert isinstance(lemma(word, tag), str)
    assert isinstance(lemma_of(word), str)
