"""Which class of a detector does a phrase name? Its head noun decides, with the help of WordNet.

As Wang et al., CVPR 2021, section 4.1: a class of that name; else one named by a lemma of the noun's most frequent
synset; else by a lemma of a hypernym, nearest first: "spectators" are a person, a "sweater" is clothing. Three
departures. A lemma must mean most often what it means here, so that a "guy" is no cat, though WordNet has "cat" among
the lemmas of "guy". Where a plural leads nowhere, its singular is tried: WordNet takes "people" and "men" for nouns of
their own, that are groups. The last word of a class of several words is a name of it ("ball": sports ball).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from groundling.errors import DataError
from groundling.text.classes import head_noun
from groundling.text.singular import singular
from groundling.text.wordnet import wordnet
from groundling.types import Caption, Span

WAYS = ("name", "lemma", "hypernym", "singular")
PLACEHOLDERS = ("background", "n/a", "__background__", "")


@dataclass(frozen=True)
class LabelMatch:
    """A class, as an index into the labels, and how a word led to it."""

    label: int
    way: str  # one of WAYS


class Labels:
    """The classes of a detector, to be looked up by words of captions."""

    def __init__(self, names: Sequence[str]) -> None:
        """Names as the detector has them. Placeholders match nothing; of equal names the first counts."""
        self.names = tuple(names)
        plain = [(_lemma(name), i) for i, name in enumerate(names) if name.strip().lower() not in PLACEHOLDERS]
        last = {name.rpartition("_")[2]: i for name, i in reversed(plain) if "_" in name}
        self._named: Mapping[str, int] = last | {name: i for name, i in reversed(plain)}
        synsets = [(wordnet().synset(name), i) for name, i in reversed(plain)]
        self._meant = {synset: i for synset, i in synsets if synset is not None}
        self._known: dict[str, LabelMatch | None] = {}

    def find(self, noun: str) -> LabelMatch | None:
        """The class of a noun (as captions have it, lower-cased); None where there is none."""
        if noun not in self._known:
            match = self._find(noun)
            one = self._find(singular(noun)) if match is None else None
            self._known[noun] = LabelMatch(one.label, "singular") if one else match
        return self._known[noun]

    def table(self, words: Sequence[str]) -> list[int]:
        """The class of each word, -1 where it has none."""
        matches = [self.find(word) for word in words]
        return [-1 if one is None else one.label for one in matches]

    def _find(self, noun: str) -> LabelMatch | None:
        net = wordnet()
        for name in (noun, net.base(noun) or noun):
            if name in self._named:
                return LabelMatch(self._named[name], "name")
        synset = net.synset(noun)
        for depth, kind in enumerate(net.kinds(synset) if synset is not None else ()):
            if kind in self._meant:
                return LabelMatch(self._meant[kind], "hypernym" if depth else "lemma")
        return None


@dataclass(frozen=True)
class Coverage:
    """How many different phrases have a class, in all and by the way that led there."""

    phrases: int
    by_way: Mapping[str, int]
    mentions: int
    covered_mentions: int
    by_label: Mapping[str, int]  # name -> different phrases, the most frequent first

    @property
    def covered(self) -> int:
        return sum(self.by_way.values())


def coverage(phrases: Iterable[tuple[Caption, Span]], labels: Labels) -> Coverage:
    """Of phrases of annotated captions, counted once each by their words."""
    times: Counter[tuple[str, ...]] = Counter()
    head: dict[tuple[str, ...], str] = {}
    for caption, span in phrases:
        words = caption.tokens[slice(*span)]
        times[words] += 1
        noun = head_noun(caption, span)
        head.setdefault(words, caption.tokens[noun] if noun >= 0 else "")
    matches = {words: labels.find(noun) for words, noun in head.items()}
    ways = Counter(one.way for one in matches.values() if one)
    names = Counter(labels.names[one.label] for one in matches.values() if one)
    return Coverage(
        phrases=len(times),
        by_way={way: ways[way] for way in WAYS},
        mentions=sum(times.values()),
        covered_mentions=sum(n for words, n in times.items() if matches[words]),
        by_label=dict(sorted(names.items(), key=lambda item: (-item[1], item[0]))),
    )


def read_labels(path: Path) -> tuple[str, ...]:
    """Names of classes from a text file, one per line; DataError where it is none."""
    try:
        names = tuple(line.strip() for line in path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read class names ({error}); one per line, UTF-8") from error
    if not any(names):
        raise DataError(f"{path} holds no class names; one per line is expected")
    return tuple(name for name in names if name)


def _lemma(name: str) -> str:
    return "_".join(name.lower().replace("-", " ").replace("_", " ").split())
