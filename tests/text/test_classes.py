"""Object classes: the lemmas of the nouns that head annotated phrases."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from groundling.errors import DataError
from groundling.text.classes import Classes, build, forms, groundable_words, head_noun, label
from groundling.types import Caption, Example, Phrase

BOX = (0.0, 0.0, 5.0, 5.0)


def tagged(line: str) -> Caption:
    """A caption from "two/CD dogs/NNS/dog": word, tag and, where it differs, lemma."""
    parts = [part.split("/") for part in line.split()]
    words = tuple(part[0] for part in parts)
    spans = tuple((0, 0) for _ in words)
    return Caption(
        " ".join(words), words, spans, tuple(p[1] for p in parts), tuple(p[-1] if p[2:] else p[0] for p in parts)
    )


DOGS = tagged("two/CD dogs/NNS/dog run/VBP on/IN green/JJ grass/NN")
GROUP = tagged("a/DT group/NN of/IN people/NNS/person and/CC dog/NN")


def example(id: str, caption: Caption, *phrases: Phrase) -> Example:
    return Example(id, "", (10, 10), (caption,), phrases)


TRAIN = [
    example("1", DOGS, Phrase(0, (0, 2), (BOX,)), Phrase(0, (4, 6), (BOX,))),
    example("2", GROUP, Phrase(0, (0, 4), (BOX,)), Phrase(0, (5, 6), (BOX,))),
    example("3", DOGS, Phrase(0, (4, 6))),
]


def test_the_head_is_the_last_noun_of_the_phrase() -> None:
    assert head_noun(GROUP, (0, 4)) == 3
    assert head_noun(DOGS, (4, 5)) == -1
    assert head_noun(Caption("dogs", ("dogs",), ((0, 4),)), (0, 1)) == -1  # no tags yet


def test_a_class_is_the_lemma_that_heads_enough_phrases_with_boxes() -> None:
    """dog heads two boxed phrases, grass one (and one without a box), person one; group heads none."""
    assert build(TRAIN, 2).names == ("dog",)
    assert build(TRAIN, 1).names == ("dog", "grass", "person")


def test_words_are_groundable_when_they_are_forms_of_a_class() -> None:
    classes = build(TRAIN, 2)
    assert "dogs" in classes and "dog" in classes and "grass" not in classes and "run" not in classes
    assert classes.class_of["dogs"] == "dog"
    assert len(classes) == 2 and set(classes) == {"dog", "dogs"}


def test_a_verb_of_the_same_lemma_makes_no_form() -> None:
    assert forms(["saw", "he"], [tagged("he/PRP sees/VBZ/saw him/PRP/he")]) == {"saw": "saw", "he": "he", "him": "he"}


def test_a_form_of_a_form_is_no_form() -> None:
    assert forms(["child"], [tagged("children/NNS/child childrens/NNS/children")]) == {
        "child": "child",
        "children": "child",
    }


def test_a_word_that_is_mostly_no_noun_is_not_groundable_though_it_may_name_a_class() -> None:
    red = tagged("a/DT red/JJ dog/NN or/CC red/JJ cat/NN of/IN a/DT man/NN in/IN red/NN")
    assert forms(["dog", "red"], [red]) == {"dog": "dog"}
    assert forms(["dog", "red"], [red, tagged("reds/NNS/red in/IN red/NN on/IN red/NN")]) == {
        "dog": "dog",
        "red": "red",
        "reds": "red",
    }


def test_a_caption_without_tags_says_nothing_of_what_its_words_are() -> None:
    untagged = Caption("red dogs", ("red", "dogs"), ((0, 3), (4, 8)))
    assert forms(["dog", "red"], [untagged, tagged("dogs/NNS/dog")]) == {"dog": "dog", "red": "red", "dogs": "dog"}


def test_labels_are_given_to_heads_of_known_classes_only() -> None:
    first, grass = label(TRAIN[:1], build(TRAIN, 2))[0].gold
    assert (first.label, first.head) == ("dog", 1)
    assert (grass.label, grass.head) == ("", 5)
    assert first.boxes == (BOX,)


def test_json_gives_the_same_classes_back() -> None:
    classes = build(TRAIN, 1)
    assert Classes.from_json(json.loads(json.dumps(classes.to_json()))) == classes
    for bad in ({}, {"names": ["a"]}, {"names": ["a"], "class_of": {"b": "c"}}, {"names": 1, "class_of": {}}):
        with pytest.raises(DataError, match="not object classes"):
            Classes.from_json(bad)


def test_a_class_that_the_data_set_names_is_the_class_of_its_word() -> None:
    """ActivityNet-Entities calls "guy" a man and tells the word; the lemma of the noun would be another class."""
    caption = Caption("a guy", ("a", "guy"), ((0, 1), (2, 5)), ("DT", "NN"), ("a", "guy"))
    phrase = Phrase(0, (1, 2), ((0.0, 0.0, 5.0, 5.0),), frames=(3,), label="man", head=1)
    segment = Example("v_1_segment_00", "", (0, 0), (caption,), (phrase,))
    found = build([segment], min_count=1)
    assert found.names == ("man",) and found.class_of["guy"] == "man"
    assert label([segment], found) == [segment]
    (rare,) = label([segment], Classes(("dog",), {"dog": "dog"}))[0].gold
    assert (rare.label, rare.head) == ("", 1)


def test_where_nobody_drew_boxes_nouns_that_name_no_thing_are_not_groundable() -> None:
    tagged_caption = replace(tagged("dog/NN on/IN top/NN of/IN box/NN"), chunks=((0, 1), (2, 3), (4, 5)))
    found = groundable_words([Example("1", "", (0, 0), (tagged_caption, tagged_caption))])
    assert "dog" in found and "box" in found and "top" not in found
    assert "top" in found.names  # a class all the same: models have as many as captions have
