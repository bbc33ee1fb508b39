"""Which phrases are one thing."""

from __future__ import annotations

import numpy as np
import pytest
from labelled_photos import phrase

from groundling.labels.merge import KIND, PEOPLE, SAME_NOUN, chains, closeness
from groundling.labels.phrases import ALONE, SEVERAL, caption_phrases


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("dog", "dog", SAME_NOUN),
        ("terrier", "dog", KIND),
        ("man", "worker", PEOPLE),
        ("dog", "cat", 0),
        ("man", "dog", 0),
        ("shirt", "man", 0),
        ("", "", 0),
    ],
)
def test_nouns_are_close_by_name_by_kind_or_as_people(first: str, second: str, expected: int) -> None:
    assert closeness(phrase(first), phrase(second)) == expected


def test_one_and_several_are_not_the_same_thing() -> None:
    assert closeness(phrase("dog"), phrase("dog", count=SEVERAL)) == 0


def test_phrases_of_two_captions_with_the_same_place_are_one_thing() -> None:
    phrases = [phrase("dog", 0), phrase("terrier", 1), phrase("ball", 1, 9)]
    assert chains(phrases, np.ones((3, 3))) == [[0, 1], [2]]


def test_phrases_with_other_places_are_two_things() -> None:
    assert chains([phrase("dog", 0), phrase("dog", 1)], np.eye(2)) == [[0], [1]]


def test_a_caption_tells_two_things_of_one_noun_apart() -> None:
    """Not even a phrase of another caption that fits both brings them together."""
    phrases = [phrase("man", 0, 0), phrase("man", 0, 10), phrase("man", 1, 0)]
    found = chains(phrases, np.array([[1, 0.9, 0.8], [0.9, 1, 0.7], [0.8, 0.7, 1]]))
    assert found == [[0, 2], [1]]


def test_a_definite_phrase_speaks_again_of_what_was_named() -> None:
    phrases = [phrase("dog", 0, 0), phrase("dog", 0, 10, definite=True)]
    assert chains(phrases, np.ones((2, 2))) == [[0, 1]]


def test_captions_are_read_for_heads_and_numbers() -> None:
    found = caption_phrases([["Two brown dogs chase a red ball.", "It is a group of people."], []])
    assert found[1] == []
    told = {one.phrase.text: (one.caption, one.head, one.count) for one in found[0]}
    assert told["Two brown dogs"] == (0, "dog", 2)
    assert told["a red ball"] == (0, "ball", ALONE)
    assert caption_phrases([["A hot dog."]])[0][0].head == "hot dog"  # and no dog
    assert "It" not in told  # a pronoun names nothing that can be looked for
    assert told["a group of people"][2] == SEVERAL
    for one in found[0]:
        text = ["Two brown dogs chase a red ball.", "It is a group of people."][one.caption]
        assert one.phrase.text == text[slice(*one.phrase.span)]
