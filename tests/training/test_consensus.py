"""Captions that agree with the others of their image come first."""

from __future__ import annotations

from groundling.training.consensus import by_agreement
from groundling.types import Caption, Example


def example(name: str, *texts: str) -> Example:
    captions = tuple(Caption(text, tuple(text.split()), tuple((0, 0) for _ in text.split())) for text in texts)
    return Example(name, "", (20, 20), captions)


def test_the_caption_that_shares_most_words_with_the_others_comes_first() -> None:
    """Captions 1 and 2 share "dog on grass", which 0 has nothing of. Of the two, 1 also shares "green" with 3."""
    dog = example("dog", "my best friend", "a dog on green grass", "a dog on grass", "the green lawn")
    cat = example("cat", "a cat sits", "a cat")
    ranks = by_agreement([dog, cat])
    assert ranks(dog)[0] == 1
    assert ranks(dog)[1] == 2
    assert ranks(dog)[-1] == 0


def test_a_single_caption_and_captions_without_words() -> None:
    ranks = by_agreement([example("one", "a dog"), example("some", "", "a cat", "a black cat")])
    assert ranks(example("one", "a dog")) == [0]
    assert sorted(ranks(example("some", "", "a cat", "a black cat"))) == [1, 2]


def test_equal_captions_keep_their_order() -> None:
    same = example("same", "a dog", "a dog", "a dog")
    assert by_agreement([same, example("other", "a cat", "a bird")])(same) == [0, 1, 2]
