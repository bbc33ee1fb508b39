"""A caption without what is not there, or with a hedge at it.

    a man on a horse with a hat   drop    a man on a horse
                                  hedge   a man on a horse with what may be a hat

What is dropped goes with the words that only served it: its preposition, its participle ("wearing a hat"), its "and",
and what depends on it. A subject cannot go: it becomes "something" or "someone".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from groundling.text.dependencies import Tree
from groundling.text.noun_kinds import kind_of
from groundling.types import Caption, Span

DROP, HEDGE = "drop", "hedge"
MAY_BE = "what may be "
PREPOSITIONS = ("prep", "agent", "dative")
BE = ("is", "are", "was", "were", "be")
PARTS = ("top", "front", "side", "middle", "back", "edge", "corner")  # that are nothing without their "of"
ARTICLES = {"det", "poss", "amod", "compound", "nummod", "nmod", "advmod", "predet", "quantmod"}


def hedge(text: str, spans: Sequence[Span]) -> str:
    """The caption with "what may be" before each of these characters."""
    for start, _ in sorted(spans, reverse=True):
        first = text[start : start + 1]
        if start == 0 and first.isupper() and text[1:2].islower() | text[1:2].isspace():
            text = MAY_BE.capitalize() + first.lower() + text[1:]
        else:
            text = text[:start] + MAY_BE + text[start:]
    return text


def drop(caption: Caption, tree: Tree, spans: Sequence[Span]) -> str:
    """The caption without the noun phrases that have these characters."""
    gone: set[int] = set()
    instead: dict[int, str] = {}
    for span in sorted(spans, reverse=True):
        tokens = [i for i, (a, b) in enumerate(caption.spans) if span[0] <= a and b <= span[1]]
        if tokens and not set(tokens) <= gone:
            _drop(caption, tree, tokens, gone, instead)
    return _written(caption, gone, instead, tree)


def _drop(caption: Caption, tree: Tree, tokens: list[int], gone: set[int], instead: dict[int, str]) -> None:
    head = next((i for i in tokens if tree.heads[i] not in tokens or tree.heads[i] == i), tokens[-1])
    parent, relation = tree.heads[head], tree.relations[head]
    joined = [i for i in tree.children(head) if tree.relations[i] == "conj" and i not in gone]
    if joined:  # the first of "a hat and a coat": the second takes its place
        before = _until(tree, head, joined[0])
        inner = relation == "conj" or _after_comma(caption, tokens[0])  # of a list that began before it
        gone |= before - _conjunctions(tree, head, joined[0]) if inner else before
    elif relation == "conj":
        gone |= tree.below(head) | _conjunctions(tree, parent, head)
        first = min(tree.below(parent) - gone, default=parent)
        if _after_comma(caption, first):  # "a hat, a coat" is now the whole list
            instead[first] = f"and {caption.text[slice(*caption.spans[first])]}"
    elif caption.tags[last := max(tree.below(head))] == "CC":  # "in a shirt and jeans", the jeans tied elsewhere
        gone |= set(range(tokens[0], last + 1))
    elif relation == "pobj" and tree.relations[parent] in PREPOSITIONS and not _needed(caption, tree, parent):
        gone |= tree.below(_outer(caption, tree, parent))
    elif relation in ("dobj", "obj") and caption.tags[parent] in ("VBG", "VBN") and not _carries_subject(tree, parent):
        kept = {i for child in tree.children(parent) if child > head for i in tree.below(child)}
        gone |= (tree.below(parent) - kept) | tree.below(head)
    else:
        gone |= {i for i in tokens if i != tokens[0]}
        instead[tokens[0]] = "someone" if kind_of(caption.lemmas[head]) == "people" else "something"


def _after_comma(caption: Caption, token: int) -> bool:
    return token > 0 and "," in caption.text[caption.spans[token - 1][0] : caption.spans[token][0]]  # or it is a token


def _until(tree: Tree, head: int, joined: int) -> set[int]:
    """The first of two joined phrases with the words between them."""
    first = min(tree.below(joined))
    own = {i for child in tree.children(head) if tree.relations[child] in ARTICLES for i in tree.below(child)}
    return {i for i in {head} | own | tree.below(head) if i < first}


def _conjunctions(tree: Tree, parent: int, joined: int) -> set[int]:
    """The "and" before the last of joined phrases."""
    return {i for i in tree.children(parent) if tree.relations[i] in ("cc", "preconj") and i < joined}


def _outer(caption: Caption, tree: Tree, preposition: int) -> int:
    """The first of several prepositions ("out of a window", "on top of a car"), or the adverb before one ("next to a
    tree")."""
    above = tree.heads[preposition]
    if caption.tokens[above] in PARTS and tree.relations[above] == "pobj":
        return _outer(caption, tree, tree.heads[above])
    serves = tree.relations[preposition] in ("prep", "pcomp") and above < preposition
    while (
        serves
        and tree.relations[above] in ("prep", "advmod", "prt")
        and caption.tags[above] in ("IN", "RB", "JJ", "RP")
    ):
        preposition, above = above, tree.heads[above]
        serves = tree.relations[preposition] in ("prep", "pcomp") and above < preposition
    return preposition


def _needed(caption: Caption, tree: Tree, preposition: int) -> bool:
    """Is it all that a form of "be" says: "the girl is in a harness"?"""
    verb = tree.heads[preposition]
    prepositions = [
        i for i in tree.children(verb) if i > verb and tree.relations[i] in ("prep", "attr", "acomp", "advmod", "prt")
    ]
    return caption.tokens[verb] in BE and prepositions == [preposition]


def _carries_subject(tree: Tree, verb: int) -> bool:
    return any(tree.relations[i] in ("nsubj", "nsubjpass", "expl") for i in tree.children(verb))


SINGULAR = {"are": "is", "were": "was", "have": "has"}


def _written(caption: Caption, gone: set[int], instead: dict[int, str], tree: Tree) -> str:
    """The tokens that are left, with what stands between them; capital letter and full stop as they were."""
    _agree(caption, gone, instead, tree)
    kept = [i for i in range(len(caption.tokens)) if i not in gone or i in instead]
    out = [caption.text[: caption.spans[0][0]] if kept[:1] == [0] else ""]
    for before, i in zip([-1, *kept], kept, strict=False):
        start, end = caption.spans[i]
        out += [
            _between(caption, before, i, before in instead) if before >= 0 else "",
            instead.get(i) or caption.text[start:end],
        ]
    out.append(caption.text[caption.spans[-1][1] :] if kept else "")
    text = re.sub(r"\s+([,.;!?])", r"\1", " ".join("".join(out).split()))
    text = re.sub(r"(?:,|\band\b|\bor\b)\s*(?=[.!?]?$)", "", text).strip(" ,")
    text = re.sub(r"\s+([.!?])$", r"\1", text)
    return text[:1].upper() + text[1:] if caption.text[:1].isupper() else text


def _between(caption: Caption, before: int, after: int, replaced: bool) -> str:
    """What stands between two tokens that were left. A comma on either side of what went goes with it, but that after a
    phrase that was replaced stays, and so does one of two around a member of a list."""
    left = caption.text[caption.spans[before][1] : caption.spans[before + 1][0]]
    right = caption.text[caption.spans[after - 1][1] : caption.spans[after][0]]
    if after == before + 1:
        return left
    if replaced:
        return right
    listed = "," in left and "," in right and caption.tags[before].startswith("NN")
    return ", " if listed and caption.tags[after] in ("DT", "CD", "JJ", "NN", "NNS", "PRP$") else " "


def _agree(caption: Caption, gone: Collection[int], instead: dict[int, str], tree: Tree) -> None:
    """One of two joined subjects is gone: "a dog and a cat are" becomes "a dog is"."""
    for i, token in enumerate(caption.tokens):
        if token not in SINGULAR or i in gone:
            continue
        verb = i if tree.relations[i] not in ("aux", "auxpass") else tree.heads[i]
        subjects = {
            n for c in tree.children(verb) if tree.relations[c] in ("nsubj", "nsubjpass") for n in tree.below(c)
        }
        nouns = [n for n in subjects if caption.tags[n].startswith("NN") and tree.relations[n] in _SUBJECT]
        left = [n for n in nouns if n not in gone and n not in instead]
        if len(nouns) > len(left) and len(left) <= 1 and all(caption.tags[n] in ("NN", "NNP") for n in left):
            instead.setdefault(i, SINGULAR[token])


_SUBJECT = ("nsubj", "nsubjpass", "conj")
