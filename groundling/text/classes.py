"""Single-word object classes, made of the phrases that people drew boxes for.

As in the papers: the head of a phrase is its last noun, its class the lemma of that noun, and a class is a lemma that
heads enough phrases with boxes in the training split: 100 in the 29,000 images of Flickr30k, where the papers count 480
classes; in fewer images the same share is fewer phrases, 20 in 6,000. A generated word is groundable when it is
a form of a class: when captions have this word as a noun, or a pronoun, more often than not, with the class as its
lemma.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from groundling.errors import DataError
from groundling.types import Caption, Example, Phrase, Span

NO_THING = frozenset(  # nouns of captions that name nothing that has a place
    ("air", "back", "background", "bottom", "center", "centre", "close", "corner", "couple", "day", "direction")
    + ("distance", "edge", "end", "foreground", "front", "image", "kind", "left", "lot", "middle", "number", "photo")
    + (
        "photograph",
        "pic",
        "picture",
        "right",
        "scene",
        "shot",
        "side",
        "sort",
        "time",
        "top",
        "type",
        "variety",
        "view",
    )
)


@dataclass(frozen=True)
class Classes(Collection[str]):
    """The groundable words, and the class of each. `word in classes` decides whether a word is groundable."""

    names: tuple[str, ...]  # the most frequent first
    class_of: Mapping[str, str]  # word as captions have it -> name of its class

    def __contains__(self, word: object) -> bool:
        return word in self.class_of

    def __iter__(self) -> Iterator[str]:
        return iter(self.class_of)

    def __len__(self) -> int:
        """How many words are groundable; `len(classes.names)` is how many classes there are."""
        return len(self.class_of)

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "class_of": dict(self.class_of)}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Classes:
        """The inverse of `to_json`; raises DataError on anything else."""
        match row:
            case {"names": [*names], "class_of": {**class_of}} if set(class_of.values()) <= set(names):
                return Classes(tuple(map(str, names)), {str(word): str(name) for word, name in class_of.items()})
        raise DataError('not object classes: expected {"names": [...], "class_of": {word: name}}')


def build(examples: Iterable[Example], min_count: int = 20) -> Classes:
    """The classes of these examples (the training split, annotated): heads of `min_count` or more boxed phrases.

    Where the data set names the class of a phrase itself, that is its class.
    """
    examples = list(examples)
    heads: Counter[str] = Counter()
    named: dict[str, Counter[str]] = {}  # word -> the classes that the data set gives it
    for example in examples:
        for phrase in example.gold:
            caption = example.captions[phrase.caption]
            if phrase.boxes and phrase.label:
                heads[phrase.label] += 1
                named.setdefault(caption.tokens[phrase.head], Counter())[phrase.label] += 1
            elif phrase.boxes and (head := head_noun(caption, phrase.span)) >= 0:
                heads[caption.lemmas[head]] += 1
    kept = {name for name, n in heads.items() if n >= min_count}
    names = sorted(kept, key=lambda name: (-heads[name], name))
    class_of = forms(names, (caption for example in examples for caption in example.captions))
    given = {word: label for word, count in named.items() if (label := count.most_common(1)[0][0]) in kept}
    return Classes(tuple(names), class_of | given)


def forms(names: Sequence[str], captions: Iterable[Caption]) -> dict[str, str]:
    """The words of annotated captions that name a class, with that class: {"dog": "dog", "dogs": "dog"}.

    A word that is something else in half of its uses or more is no form: "red" may be a class ("a man in red"), but
    most of what is called red is a shirt.
    """
    known, lemmas = set(names), {name: Counter[str]() for name in names}
    uses: Counter[str] = Counter()
    for caption in captions:
        for word, tag, lemma in zip(caption.tokens, caption.tags, caption.lemmas, strict=False):
            uses[word] += 1
            if lemma in known and tag.startswith(("NN", "PRP")):
                lemmas.setdefault(word, Counter())[lemma] += 1
    nouns = {word: count for word, count in lemmas.items() if 2 * count.total() > uses[word] or not uses[word]}
    return {word: count.most_common(1)[0][0] if count else word for word, count in nouns.items()}


def head_noun(caption: Caption, span: Span) -> int:
    """The last noun of a phrase, as an index into the tokens; -1 where there is none or no tag is known."""
    tags = caption.tags[slice(*span)]
    return next((span[0] + i for i in reversed(range(len(tags))) if tags[i].startswith("NN")), -1)


def label(examples: Iterable[Example], classes: Classes) -> list[Example]:
    """The same examples, each phrase with its head and, where the head is a form of a class, its label.

    Head and class are those that the data set names, where it does: "he" may be a man.
    """
    return [replace(example, gold=tuple(_labelled(example, classes))) for example in examples]


def _labelled(example: Example, classes: Classes) -> Iterator[Phrase]:
    names = set(classes.names)
    for phrase in example.gold:
        caption = example.captions[phrase.caption]
        head = phrase.head if phrase.label else head_noun(caption, phrase.span)
        name = phrase.label or (caption.lemmas[head] if head >= 0 else "")
        yield replace(phrase, head=head, label=name if name in names else "")


def groundable_words(examples: Iterable[Example]) -> Classes:
    """Forms of the object classes of a training split; where nobody drew boxes, of the heads of its noun phrases, but
    for those that name no thing.

    A class is as frequent as the papers' in Flickr30k: 100 phrases in 29,000 images.
    """
    examples = list(examples)
    least = max(2, math.ceil(100 * len(examples) / 29_000))
    boxed = build(examples, least)
    if boxed.names:
        return boxed
    captions = [caption for example in examples for caption in example.captions]
    heads: Counter[str] = Counter()
    for caption in captions:
        nouns = [head_noun(caption, chunk) for chunk in caption.chunks]
        heads.update(caption.lemmas[noun] for noun in nouns if noun >= 0)
    names = sorted((name for name, n in heads.items() if n >= least), key=lambda name: (-heads[name], name))
    class_of = forms(names, captions)
    return Classes(tuple(names), {word: name for word, name in class_of.items() if name not in NO_THING})
