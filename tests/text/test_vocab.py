from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.errors import DataError
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.types import BOS, EOS, PAD, UNK, Vocab

SENTENCES = [["a", "dog", "runs"], ["a", "dog"], ["a", "cat"]]


def test_words_below_the_threshold_are_unknown_and_the_rest_go_by_frequency() -> None:
    """a: 3, dog: 2, cat: 1, runs: 1."""
    vocab = Vocabulary.build(SENTENCES, min_count=2)
    assert vocab.words == (*SPECIAL, "a", "dog")
    assert vocab.encode(["a", "cat", "dog"]) == [4, UNK, 5]
    assert "dog" in vocab and "cat" not in vocab and len(vocab) == 6


def test_ties_are_in_alphabetical_order_whatever_the_order_of_the_sentences() -> None:
    assert Vocabulary.build(SENTENCES, 1) == Vocabulary.build(SENTENCES[::-1], 1)
    assert Vocabulary.build(SENTENCES, 1).words[-2:] == ("cat", "runs")


def test_the_papers_threshold_keeps_a_word_of_five_occurrences() -> None:
    vocab = Vocabulary.build([["five"]] * 5 + [["four"]] * 4)
    assert "five" in vocab and "four" not in vocab


def test_decoding_stops_at_the_end_and_drops_what_is_no_word() -> None:
    vocab = Vocabulary.build(SENTENCES, 1)
    a, dog = vocab.encode(["a", "dog"])
    assert vocab.decode([BOS, a, dog, EOS, a, PAD]) == ["a", "dog"]
    assert vocab.decode([a, UNK]) == ["a", "<unk>"]


@given(st.lists(st.lists(st.text(min_size=1, max_size=5))))
def test_json_gives_the_same_vocabulary_back_and_known_words_come_back(sentences: list[list[str]]) -> None:
    vocab = Vocabulary.build(sentences, 1)
    again = Vocabulary.from_json(json.loads(json.dumps(vocab.to_json())))
    assert again == vocab
    for sentence in sentences:
        known = [word for word in sentence if word not in SPECIAL]
        assert again.decode(again.encode(known)) == known


def test_a_special_word_in_the_data_does_not_get_a_second_id() -> None:
    assert Vocabulary.build([["<unk>", "<eos>", "a"]], 1).words == (*SPECIAL, "a")


@pytest.mark.parametrize(
    "row", [{}, {"words": "abc"}, {"words": [1]}, {"words": ["a"]}, {"words": [*SPECIAL, "a", "a"]}]
)
def test_what_is_no_vocabulary_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not a vocabulary"):
        Vocabulary.from_json(row)


def test_it_serves_wherever_a_vocab_is_asked_for() -> None:
    vocab: Vocab = Vocabulary.build(SENTENCES)
    assert vocab.words[:4] == SPECIAL
