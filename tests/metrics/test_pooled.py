"""F1 by sentence against the pool of all captions of an image: appendix A of Ma et al. (ECCV 2020), by hand."""

from __future__ import annotations

import pytest

from groundling.metrics.evaluation import evaluate
from groundling.text.words import caption as as_caption
from groundling.types import Box, Example, GroundedCaption, Link, Phrase

MAN, DOG, HAT, AWAY = (0.0, 0.0, 50.0, 90.0), (60.0, 40.0, 90.0, 90.0), (10.0, 0.0, 30.0, 15.0), (95.0, 0.0, 99.0, 5.0)
CAPTIONS = ("a man with a dog", "a man in a hat", "the dog")


def example(id: str = "x") -> Example:
    """Three captions; the pool has the classes man, dog and hat."""
    drawn = [(0, 1, "man", MAN), (0, 4, "dog", DOG), (1, 1, "man", MAN), (1, 4, "hat", HAT), (2, 1, "dog", DOG)]
    gold = tuple(Phrase(c, (head, head + 1), (box,), label=noun, head=head) for c, head, noun, box in drawn)
    return Example(id, "", (100, 100), tuple(map(as_caption, CAPTIONS)), gold, split="val")


def predicted(text: str, places: dict[int, Box], id: str = "x") -> GroundedCaption:
    words = as_caption(text)
    links = tuple(Link(t, words.spans[t], box, 0.5) for t, box in places.items())
    return GroundedCaption(id, text, words.tokens, words.spans, links)


def scores(*captions: GroundedCaption, images: int = 1) -> dict[str, float]:
    classes = {"man", "dog", "hat", "cat"}
    examples = [example(), *(example(f"y{i}") for i in range(images - 1))]
    found = evaluate(captions, examples, metrics=(), class_of=lambda word: word if word in classes else None)
    return {score.name: score.value for score in found.scores}


def test_the_scores_are_those_of_the_appendix() -> None:
    """A = 3 words (man, dog, cat), C = 2 of the pool, E = 1 at its place; B = 3 classes, D = 2 of them predicted.

    all: 1/3 and 1/3, F1 1/3. loc: 1/2 and 1/2, F1 1/2.
    """
    found = scores(predicted("a man a dog a cat", {1: MAN, 3: AWAY, 5: DOG}))
    assert found["f1_pooled_all"] == pytest.approx(1 / 3)
    assert found["f1_pooled_loc"] == pytest.approx(1 / 2)


def test_a_sentence_of_words_from_several_captions_is_right_where_each_caption_alone_lacks_some() -> None:
    """man, dog and hat, all at their places: 1 in the pool; no caption has all three, so the released way has less."""
    found = scores(predicted("a man a dog a hat", {1: MAN, 3: DOG, 5: HAT}))
    assert found["f1_pooled_all"] == found["f1_pooled_loc"] == 1
    assert found["f1_per_sent_all"] < 1


def test_a_word_that_occurs_twice_counts_twice_in_precision_and_once_in_recall() -> None:
    """A = 2, E = 1 of them; of B = 3 classes 1 is found: p 1/2, r 1/3, F1 0.4. loc: p 1/2, r 1, F1 2/3."""
    found = scores(predicted("a man a man", {1: MAN, 3: AWAY}))
    assert found["f1_pooled_all"] == pytest.approx(0.4)
    assert found["f1_pooled_loc"] == pytest.approx(2 / 3)


def test_an_image_of_which_nothing_is_named_counts_in_all_and_not_in_loc() -> None:
    right, nothing = predicted("a man a dog a hat", {1: MAN, 3: DOG, 5: HAT}), predicted("a cat", {1: MAN}, "y0")
    found = scores(right, nothing, images=2)
    assert found["f1_pooled_all"] == 0.5 and found["f1_pooled_loc"] == 1


def test_shapes_of_wrong_boxes_and_the_upper_bound_are_told_as_scores() -> None:
    """A box inside the man is partial; if that were right, what is found of all would be more."""
    part = predicted("a man", {1: (10.0, 10.0, 20.0, 20.0)})
    found = evaluate([part], [example()], metrics=(), class_of=lambda word: word if word == "man" else None)
    assert found.errors is not None
    told = {score.name: score for score in found.errors.figures()}
    assert (told["partial"].value, told["enlarged"].value, told["deviated"].value) == (1, 0, 0)
    assert told["f1_loc upper bound"].value == found.errors.upper_bound["loc"]["f1"] > 0
    assert "iou:0.5" in told["partial"].signature
