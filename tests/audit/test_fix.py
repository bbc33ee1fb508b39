"""Captions without what is not there, and with a hedge at it."""

from __future__ import annotations

import pytest

from groundling.audit import fix
from groundling.evaluation.evidence import parse
from groundling.text.dependencies import trees

CASES = [  # caption, phrase that is not there, caption without it
    ("a man on a horse with a hat", "a hat", "a man on a horse"),
    ("A dog and a cat are playing on the grass.", "a cat", "A dog is playing on the grass."),
    ("A dog and a cat are playing on the grass.", "A dog", "A cat is playing on the grass."),
    ("A man wearing a red hat is holding a ball.", "a red hat", "A man is holding a ball."),
    ("A man wearing a red hat is holding a ball.", "a ball", "A man wearing a red hat is holding something."),
    ("a dog runs through the grass", "a dog", "something runs through the grass"),
    ("A woman sits in a chair.", "A woman", "Someone sits in a chair."),
    ("A child next to a tree is eating a cone", "a tree", "A child is eating a cone"),
    ("A group of people sitting at a table with a cake.", "a table", "A group of people sitting with a cake."),
    ("Two men in front of a house, a car and a tree.", "a car", "Two men in front of a house and a tree."),
    ("Two men in front of a house, a car and a tree.", "a tree", "Two men in front of a house, and a car."),
    ("There is a cat on the sofa.", "a cat", "There is something on the sofa."),
    ("The girl is in a harness.", "a harness", "The girl is in something."),
    ("A man in a blue shirt and jeans.", "a blue shirt", "A man in jeans."),
    ("plates of donuts sitting on top of a car", "a car", "plates of donuts sitting"),
    ("A man stands on the side of a road.", "a road", "A man stands."),
    ("a hat", "a hat", "something"),
]


def test_what_is_dropped_takes_with_it_the_words_that_only_served_it() -> None:
    captions = parse([text for text, _, _ in CASES])
    for (text, phrase, expected), caption, tree in zip(CASES, captions, trees(captions), strict=True):
        start = text.index(phrase)
        assert fix.drop(caption, tree, [(start, start + len(phrase))]) == expected


def test_several_phrases_may_go() -> None:
    [caption] = parse(["A man with a hat rides a horse near a river."])
    [tree] = trees([caption])
    spans = [(caption.text.index(p), caption.text.index(p) + len(p)) for p in ("a hat", "a river")]
    assert fix.drop(caption, tree, spans) == "A man rides a horse."


@pytest.mark.parametrize(
    ("text", "phrases", "expected"),
    [
        ("a man with a hat", ["a hat"], "a man with what may be a hat"),
        ("Two dogs and a cat run.", ["Two dogs", "a cat"], "What may be two dogs and what may be a cat run."),
        ("TV and a cat", ["TV"], "what may be TV and a cat"),
        ("a dog", [], "a dog"),
    ],
)
def test_a_hedge_stands_before_the_phrase(text: str, phrases: list[str], expected: str) -> None:
    assert fix.hedge(text, [(text.index(p), text.index(p) + len(p)) for p in phrases]) == expected


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("A room with a bed, desk, chair, and lamp.", "chair", "A room with a bed, desk, and lamp."),
        ("A plate of rice, beans, and meat.", "beans", "A plate of rice, and meat."),
        ("A bathroom with a sink, toilet and mirror.", "toilet", "A bathroom with a sink, and mirror."),
    ],
)
def test_what_is_dropped_from_a_list_takes_nothing_else_along(text: str, gone: str, left: str) -> None:
    """As an audit reads it: commas are tokens."""
    [caption] = parse([text], stops=True)
    [tree] = trees([caption])
    start = text.index(gone)
    assert fix.drop(caption, tree, [(start, start + len(gone))]) == left
