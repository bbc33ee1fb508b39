"""Which words for colours a phrase of a sentence has."""

from __future__ import annotations

import pytest

from groundling.text.colours import COLOURS, WORDS, colour_words
from groundling.text.noun_phrases import noun_phrases


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("a black dog chases a brown dog", {"a black dog": ["black"], "a brown dog": ["brown"]}),
        ("a man in a red shirt", {"a man": ["red"], "a red shirt": ["red"]}),
        ("a girl is wearing a pink dress", {"a girl": ["pink"], "a pink dress": ["pink"]}),
        ("a boy dressed in blue jeans", {"a boy": ["blue"], "blue jeans": ["blue"]}),
        (
            "a man in a red shirt holding a black dog",
            {"a man": ["red", "black"], "a red shirt": ["red"], "a black dog": ["black"]},
        ),
        ("a man near a red car", {"a man": [], "a red car": ["red"]}),  # a car is not worn
        ("a red car in a street", {"a red car": ["red"], "a street": []}),
    ],
)
def test_a_phrase_has_its_own_colours_and_those_of_what_it_wears(text: str, phrases: dict[str, list[str]]) -> None:
    assert {one.text: list(one.colours) for one in noun_phrases([text])[0]} == phrases


def test_phrases_of_no_colour_have_none() -> None:
    assert colour_words(["a", "dog", "on", "grass"], [(0, 2), (3, 4)]) == [(), ()]
    assert colour_words([], []) == []


def test_every_word_means_colours_that_pixels_have() -> None:
    assert {name for names in WORDS.values() for name in names} == set(COLOURS)
