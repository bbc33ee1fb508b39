"""Which word of a caption depends on which, by the same spaCy model that tags it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundling.text.annotate import installed, load_tagger, shown_to_tagger
from groundling.types import Caption


@dataclass(frozen=True)
class Tree:
    """For each token the one that it depends on, itself where it is the root, and how: spaCy's names (pobj, conj)."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]

    def children(self, token: int) -> list[int]:
        return [i for i, head in enumerate(self.heads) if head == token and i != token]

    def below(self, token: int) -> set[int]:
        """The token and all that depends on it."""
        below = {token}
        for at in (queue := [token]):
            new = [child for child in self.children(at) if child not in below]
            below.update(new)
            queue += new
        return below


def trees(captions: Sequence[Caption]) -> Iterator[Tree]:
    """One tree for each caption, over its tokens."""
    from spacy.tokens import Doc

    nlp = load_tagger(installed())
    docs = (Doc(nlp.vocab, words=[shown_to_tagger(token) for token in caption.tokens]) for caption in captions)
    for doc in nlp.pipe(docs, batch_size=256):
        yield Tree(tuple(token.head.i for token in doc), tuple(token.dep_ for token in doc))
