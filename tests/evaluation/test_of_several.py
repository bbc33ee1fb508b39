"""Phrases that only their attributes tell apart."""

from __future__ import annotations

from groundling.evaluation.phrases import of_several
from groundling.text import words
from groundling.types import Example, Phrase

LEFT, RIGHT, DOG = ((0.0, 0.0, 10.0, 20.0),), ((30.0, 0.0, 40.0, 20.0),), ((5.0, 5.0, 9.0, 9.0),)


def test_things_of_one_noun_are_several_and_one_thing_named_twice_is_not() -> None:
    """A bald man and two other men are told apart by "bald"; the dog of both captions is one dog."""
    captions = (words.caption("a bald man and a dog"), words.caption("two men with the dog"))
    phrases = [Phrase(0, (0, 3), LEFT), Phrase(0, (4, 6), DOG), Phrase(1, (0, 2), RIGHT), Phrase(1, (3, 5), DOG)]
    example = Example("a", "", (50, 50), captions)
    assert of_several(example, phrases) == [True, False, True, False]
