from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.errors import DataError
from groundling.metrics.chair import long_names_of, mentions, read_synonyms, score_chair, tokens
from groundling.text.singular import singular

VECTORS = Path(__file__).parent.parent / "vectors"
SYNONYMS = read_synonyms(["person, man, woman", "dog, puppy", "chair, seat", "toilet", "hot dog", "bus", "tie"])


def test_scores_and_objects_of_every_caption_equal_those_of_the_official_script() -> None:
    with gzip.open(VECTORS / "chair.json.gz") as file:
        data = json.load(file)
    rows = data["expected"]["per_caption"]
    captions = [(row["image_id"], row["caption"]) for row in rows]
    found = score_chair(
        captions, data["reference_captions"], read_synonyms(data["synonym_sets"]), data["instances"]
    ).to_dict()
    assert found["CHAIRs"] == pytest.approx(data["expected"]["CHAIRs"], abs=1e-12)
    assert found["CHAIRi"] == pytest.approx(data["expected"]["CHAIRi"], abs=1e-12)
    for row, mine in zip(rows, found["captions"], strict=True):
        for key in ("generated_objects", "hallucinated", "gt_objects"):
            assert mine[key] == row[key], row["caption"]
        assert mine["word_index"] == row["hallucination_word_index"], row["caption"]
    assert {word: singular(word) for word in data["singularised_words"]} == data["singularised_words"]


def test_one_of_three_mentions_in_one_of_two_captions() -> None:
    found = score_chair([(1, "a dog and a man"), (2, "a puppy")], [(1, "a man"), (2, "the dog")], SYNONYMS)
    assert found.to_dict()["CHAIRi"] == pytest.approx(1 / 3)
    assert found.to_dict()["CHAIRs"] == 0.5
    np.testing.assert_array_equal(found.statistics()["CHAIRi"].per_item(), [0.5, 0.0])


@pytest.mark.parametrize(
    ("caption", "names"),
    [
        ("two hot dogs", ["hot dog"]),  # not a dog
        ("an adult dog", ["dog"]),
        ("the seat of the toilet", ["toilet"]),  # not a chair
        ("a bus", []),  # Pattern thinks that it is the plural of "bu"
        ("buses, ties and the man's puppies!", ["bus", "person", "dog"]),
        ("", []),
    ],
)
def test_mentions_of_a_caption(caption: str, names: list[str]) -> None:
    assert [mention.name for mention in mentions(caption, SYNONYMS)] == names


def test_tokens_split_punctuation_and_clitics() -> None:
    assert tokens("A dog's t-shirt, 1,000 men... (don't)!") == [
        "a", "dog", "'s", "t-shirt", ",", "1,000", "men", "...", "(", "do", "n't", ")", "!",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A dog. A cat sits.", ["a", "dog", ".", "a", "cat", "sits", "."]),
        ('A "dog." It barks', ["a", '"', "dog", ".", '"', "it", "barks"]),
        ("Mr. Smith of the U.S. sits", ["mr.", "smith", "of", "the", "u.s.", "sits"]),
        ("“A dog” ‘here’ «cat»", ["“", "a", "dog", "”", "‘", "here", "’", "«", "cat", "»"]),
        ("3.5 metres... high", ["3.5", "metres", "...", "high"]),
    ],
)
def test_tokens_split_where_a_sentence_ends_and_a_quotation_begins(caption: str, expected: list[str]) -> None:
    assert tokens(caption) == expected


def test_an_object_before_the_end_of_a_sentence_is_mentioned() -> None:
    assert [mention.name for mention in mentions("This is a dog. Next a man.", SYNONYMS)] == ["dog", "person"]


def test_no_mention_at_all_gives_nan_not_a_crash() -> None:
    assert math.isnan(score_chair([(1, "nothing")], [(1, "nothing")], SYNONYMS).to_dict()["CHAIRi"])


@pytest.mark.parametrize(
    ("captions", "references", "instances", "message"),
    [
        ([(1, "a"), ("1", "b")], [(1, "c")], [], "image 1 has two captions"),
        ([(2, "a")], [(1, "c")], [], "image 2 has a caption but neither"),
        ([(1, "a")], [(1, "c")], [(1, "unicorn")], "no synonym set holds the label 'unicorn'"),
    ],
)
def test_ids_and_labels_that_do_not_fit_are_refused(
    captions: list[tuple[object, str]],
    references: list[tuple[object, str]],
    instances: list[tuple[object, str]],
    message: str,
) -> None:
    with pytest.raises(DataError, match=message):
        score_chair(captions, references, SYNONYMS, instances)


def test_a_word_in_two_synonym_sets_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match="line 2: 'man' is already in the set of 'person'"):
        read_synonyms(["person, man", "male, man"])
    with pytest.raises(DataError, match="no synonyms"):
        read_synonyms(["# nothing", ""])


@given(st.text(max_size=60))
def test_any_caption_can_be_scored(caption: str) -> None:
    assert all(0 <= mention.index < len(tokens(caption)) for mention in mentions(caption, SYNONYMS))


def test_any_list_of_classes_may_have_names_of_several_words() -> None:
    """ "palm trees" is a palm tree, not a tree; the official rules, which know no palm trees, see a tree."""
    synonyms = read_synonyms(["palm tree, coconut palm", "tree, bush", "tree house"])
    names = long_names_of(synonyms)
    caption = "two palm trees, a bush and a tree house"
    assert [one.name for one in mentions(caption, synonyms, names)] == ["palm tree", "tree", "tree house"]
    assert [one.name for one in mentions(caption, synonyms)] == ["tree", "tree", "tree"]
    captions, references = [("1", caption)], [("1", "a tree")]
    found = score_chair(captions, references, synonyms, long_names=True)
    assert [one.name for one in found.captions[0].hallucinated] == ["palm tree", "tree house"]
    assert "names:long" in found.statistics()["CHAIRi"].score().signature
