"""CHAIR: how much of what a caption mentions is not there (Rohrbach et al., Object Hallucination in Image Captioning).

    CHAIRi = hallucinated mentions / all mentions of objects        CHAIRs = captions with a hallucination / captions

An image holds the objects that its instances name and those that its reference captions mention. A mention is a word,
or two words that name one thing ("hot dog"), found in one of the user's synonym sets; the first word of a set is its
name. Repeats count. Words are made singular by Pattern's rules, mistakes included: see `text.singular`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.files import read_text
from groundling.metrics.statistics import Array, Statistics, mean_statistics, signature
from groundling.text.singular import singular

_PAIRS = (
    "air plane,baseball bat,baseball glove,cell phone,fire hydrant,hair drier,home plate,hot dog,laptop computer,"
    "mobile phone,motor bike,motor cycle,parking meter,potted plant,sports ball,stop light,stop sign,street light,"
    "suit case,teddy bear,tennis racket,traffic light,traffic signal,train track,wine glass"
)
_ANIMALS = ("animal", "bear", "bird", "cat", "cow", "cub", "dog", "elephant", "giraffe", "horse", "sheep", "zebra")
MERGED = {  # two words that become one: a baby bird is no baby, a passenger jet no passenger
    **{pair: pair for pair in _PAIRS.split(",")},
    **{f"{age} {animal}": animal for age in ("baby", "adult") for animal in _ANIMALS},
    **{f"passenger {vehicle}": vehicle for vehicle in ("jet", "train")},
    "bow tie": "tie",
    "toilet seat": "toilet",
    "wine glas": "wine glass",  # what singular makes of "wine glass"
}
LONGEST = 4  # words of a name
ABBREVIATIONS = ("co", "corp", "dr", "etc", "inc", "jr", "lt", "ltd", "mr", "mrs", "ms", "mt", "sr", "st", "vs")


@dataclass(frozen=True)
class Mention:
    word: str  # as found, singular
    name: str  # of its synonym set
    index: int  # of its first token


@dataclass(frozen=True)
class CaptionObjects:
    """One caption and what became of it."""

    id: str
    caption: str
    mentions: tuple[Mention, ...]
    truth: frozenset[str]

    @property
    def hallucinated(self) -> tuple[Mention, ...]:
        return tuple(mention for mention in self.mentions if mention.name not in self.truth)


@dataclass(frozen=True)
class Chair:
    captions: tuple[CaptionObjects, ...]
    fields: Mapping[str, str] = field(default_factory=dict)  # truth and synonyms, for the signatures

    def statistics(self) -> dict[str, Statistics]:
        ids = tuple(one.id for one in self.captions)
        wrong = np.array([len(one.hallucinated) for one in self.captions], float)
        mentions = np.array([len(one.mentions) for one in self.captions], float)
        sentences = mean_statistics("CHAIRs", signature("CHAIRs", **self.fields), ids, (wrong > 0).astype(float))
        words = Statistics(
            "CHAIRi", signature("CHAIRi", **self.fields), ids, np.stack([wrong, mentions], axis=1), _ratio
        )
        return {"CHAIRs": sentences, "CHAIRi": words}

    def to_dict(self) -> dict[str, Any]:
        """Both scores, and every caption with the objects that it mentions and those that are not there."""
        rows = [
            {
                "image_id": one.id,
                "caption": one.caption,
                "generated_objects": [mention.name for mention in one.mentions],
                "hallucinated": [[mention.word, mention.name] for mention in one.hallucinated],
                "word_index": [mention.index for mention in one.hallucinated],
                "gt_objects": sorted(one.truth),
            }
            for one in self.captions
        ]
        return {**{name: s.score().value for name, s in self.statistics().items()}, "captions": rows}


def score_chair(
    captions: Iterable[tuple[object, str]],
    references: Iterable[tuple[object, str]],
    synonyms: Mapping[str, str],
    instances: Iterable[tuple[object, str]] = (),
    *,
    long_names: bool = False,
) -> Chair:
    """Score captions, (image id, text), by reference captions, (image id, text), and instances, (image id, label).

    `long_names`: names of several words in the synonyms are looked for as a whole, whatever they are. The official
    script knows only those of COCO, and so does this without it.
    """
    longest = long_names_of(synonyms) if long_names else {}
    truth: dict[str, set[str]] = {}
    instances = list(instances)
    for image, text in references:
        truth.setdefault(str(image), set()).update(mention.name for mention in mentions(text, synonyms, longest))
    for image, label in instances:
        if label not in synonyms:
            raise DataError(f"image {image}: no synonym set holds the label {label!r}; add it to the synonyms")
        truth.setdefault(str(image), set()).add(synonyms[label])
    found: dict[str, CaptionObjects] = {}
    for image, text in captions:
        item = str(image)
        if item in found:
            raise DataError(f"image {item} has two captions; keep one")
        if item not in truth:
            raise DataError(f"image {item} has a caption but neither references nor instances; are the ids the same?")
        found[item] = CaptionObjects(item, text, tuple(mentions(text, synonyms, longest)), frozenset(truth[item]))
    digest = hashlib.sha256(json.dumps(sorted(synonyms.items())).encode()).hexdigest()[:12]
    settings = {"truth": "captions+instances" if instances else "captions", "synonyms": digest}
    settings |= {"names": "long"} if long_names else {}
    return Chair(tuple(found.values()), {"tok": "treebank", "singular": "pattern", **settings})


def long_names_of(synonyms: Mapping[str, str]) -> dict[str, str]:
    """Names of two to LONGEST words, each word singular, as `mentions` sees them -> the name itself."""
    split = {name: tokens(name) for name in synonyms}
    return {
        " ".join(singular(word) for word in words): name for name, words in split.items() if 2 <= len(words) <= LONGEST
    }


def mentions(caption: str, synonyms: Mapping[str, str], names: Mapping[str, str] | None = None) -> list[Mention]:
    """The objects that a caption mentions, in order. `names`: `long_names_of` the synonyms, the longest is taken."""
    words = [singular(token) for token in tokens(caption)]
    merged_names = {**MERGED, **(names or {})}
    sizes = range(LONGEST, 1, -1) if names else (2,)
    merged: list[tuple[str, int]] = []
    i = 0
    while i < len(words):
        size = next((n for n in sizes if " ".join(words[i : i + n]) in merged_names and i + n <= len(words)), 1)
        merged.append((merged_names.get(" ".join(words[i : i + size]), words[i]), i))
        i += size
    about_toilet = any(word == "toilet" for word, _ in merged)  # its seat is no chair
    return [
        Mention(word, synonyms[word], index)
        for word, index in merged
        if word in synonyms and not (word == "seat" and about_toilet)
    ]


def tokens(caption: str) -> list[str]:
    """Lower-cased words and punctuation, as the Penn Treebank splits them: "dog's" is two tokens, "t-shirt" one.

    A period before a space ends a sentence and is a token, unless it belongs to an abbreviation ("mr.", "u.s.").
    """
    text = re.sub(r"([^\s.]*\w)\.(?=[\])}>\"'”’»]*\s)", _sentence_end, caption.lower())
    text = re.sub(r"""\.\.\.|--|[;@#$%&?!"()\[\]{}<>*“”‘’«»„`]|[:,](?!\d)""", r" \g<0> ", text)
    text = re.sub(r"([^.])(\.)([\])}>\"']*)\s*$", r"\1 \2\3", text)
    text = re.sub(r"(?<=[^'])('(?:s|m|d|ll|re|ve)?)(?=\s|$)|(?<=\w)(n't)(?=\s|$)", r" \1\2", text)
    return re.sub(r"\bcannot\b", "can not", text).split()


def _sentence_end(match: re.Match[str]) -> str:
    word, text = match[1], match.string
    inner = match.start() > 0 and text[match.start() - 1] == "."  # the last letter of "u.s."
    return match[0] if inner or len(word) == 1 or word in ABBREVIATIONS else f"{word} . "


def read_synonyms(source: str | Path | Sequence[str]) -> dict[str, str]:
    """word -> name of its set. One set per line, `name, word, word`; "#" begins a comment."""
    lines = read_text(source).split("\n") if isinstance(source, str | Path) else source
    name = str(source) if isinstance(source, str | Path) else "synonyms"
    names: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        words = [word.strip().lower() for word in line.split("#")[0].split(",")]
        for word in filter(None, words):
            if names.setdefault(word, words[0]) != words[0]:
                raise DataError(f"{name}: line {number}: {word!r} is already in the set of {names[word]!r}; keep one")
    if not names:
        raise DataError(f"{name}: no synonyms; expected one set per line, such as 'dog, puppy, hound'")
    return names


def _ratio(sums: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])
