from __future__ import annotations

import pytest

from groundling.text.wordnet import wordnet


@pytest.mark.parametrize(
    ("word", "lemma"),
    [
        ("dog", "dog"),
        ("dogs", "dog"),
        ("Spectators", "spectator"),
        ("geese", "goose"),  # irregular
        ("boxes", "box"),
        ("puppies", "puppy"),
        ("firemen", "fireman"),
        ("ice cream", "ice_cream"),
        ("men", "men"),  # a noun of its own: a force of workers
    ],
)
def test_the_lemma_of_a_form(word: str, lemma: str) -> None:
    assert wordnet().base(word) == lemma


def test_a_word_that_is_no_noun_has_no_lemma_and_no_synset() -> None:
    assert wordnet().base("quickly") is None
    assert wordnet().synset("xyzzy") is None


def test_a_noun_means_what_it_means_most_often() -> None:
    """WordNet's first sense of "dog" is the animal, its lemmas are these."""
    net = wordnet()
    synset = net.synset("dogs")
    assert synset is not None
    assert net.lemmas(synset) == ("dog", "domestic_dog", "canis_familiaris")


def test_kinds_begin_with_the_synset_and_end_with_entity_each_once() -> None:
    net = wordnet()
    synset = net.synset("dog")
    assert synset is not None
    kinds = list(net.kinds(synset))
    assert kinds[0] == synset
    assert {net.synset("canine"), net.synset("animal"), net.synset("entity")} & set(kinds) == {
        net.synset("animal"),
        net.synset("entity"),
    }  # "canine" is most often a tooth
    assert len(set(kinds)) == len(kinds)
