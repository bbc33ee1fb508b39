"""Classes of nouns for the summary, by WordNet: what kind of thing a word names."""

from __future__ import annotations

from functools import cache

from groundling.text.wordnet import wordnet

KINDS = {  # a lemma of WordNet that stands above the word -> the class
    "person": "people",
    "people": "people",
    "animal": "animals",
    "clothing": "clothing",
    "footwear": "clothing",
    "body_part": "body parts",
    "vehicle": "vehicles",
    "food": "food",
    "foodstuff": "food",
    "plant": "plants",
    "furniture": "furniture",
    "structure": "places",
    "geological_formation": "places",
    "body_of_water": "places",
    "location": "places",
    "way": "places",
    "artifact": "things",
}
OTHER = "other"
CLASSES = (*dict.fromkeys(KINDS.values()), OTHER)


@cache
def kind_of(lemma: str) -> str:
    """One of CLASSES; "other" where WordNet does not know the word, or it is none of them."""
    net = wordnet()
    synset = net.synset(lemma)
    for kind in net.kinds(synset) if synset is not None else ():
        for name in net.lemmas(kind):
            if name in KINDS:
                return KINDS[name]
    return OTHER
