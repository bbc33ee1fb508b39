from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.errors import DataError
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.types import BOS, EOS, PAD, UNK, Caption, Vocab

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


def tagged(*pairs: tuple[str, str]) -> Caption:
    words, tags = zip(*pairs, strict=True)
    return Caption(" ".join(words), words, ((0, 0),) * len(words), tags)


RUNS = [
    tagged(("a", "DT"), ("run", "NN")),
    tagged(("dogs", "NNS"), ("run", "VBP")),
    tagged(("dogs", "NNS"), ("run", "VB")),
    tagged(("walk", "NN"), ("walk", "VB")),
    Caption("run run run", ("run", "run", "run"), ((0, 3), (4, 7), (8, 11))),
]


def test_a_noun_is_what_is_tagged_so_more_often_than_not() -> None:
    """run: 1 of 3 tagged places; walk: 1 of 2; dogs: 2 of 2. Captions without tags have no say."""
    vocab = Vocabulary.of(RUNS, 1)
    assert {word for word, noun in zip(vocab.words, vocab.nouns, strict=True) if noun} == {"dogs"}
    assert vocab.words == Vocabulary.build([caption.tokens for caption in RUNS], 1).words


def test_nouns_come_back_from_json_and_older_files_have_none() -> None:
    vocab = Vocabulary.of(RUNS, 1)
    assert Vocabulary.from_json(json.loads(json.dumps(vocab.to_json()))) == vocab
    older = Vocabulary.from_json({"words": list(vocab.words)})
    assert older.words == vocab.words and not any(older.nouns) and len(older.nouns) == len(older)


@pytest.mark.parametrize("nouns", [[99], [-1], [True], ["dogs"], {}, None])
def test_nouns_that_are_no_words_are_refused(nouns: object) -> None:
    with pytest.raises(DataError, match="not a vocabulary"):
        Vocabulary.from_json({"words": [*SPECIAL, "dogs"], "nouns": nouns})


@pytest.mark.parametrize(
    "row", [{}, {"words": "abc"}, {"words": [1]}, {"words": ["a"]}, {"words": [*SPECIAL, "a", "a"]}]
)
def test_what_is_no_vocabulary_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not a vocabulary"):
        Vocabulary.from_json(row)


def test_it_serves_wherever_a_vocab_is_asked_for() -> None:
    vocab: Vocab = Vocabulary.build(SENTENCES)
    assert vocab.words[:4] == SPECIAL
