"""What METEOR knows of English words: stems, synonyms, function words. Read from the files of `pycocoevalcap`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError, MissingExtra

SUFFIXES = (  # ending -> what takes its place, tried in this order
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man")),
    *(("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)  # kinds of match

Ints = NDArray[np.int64]


class Lexicon:
    """The word lists inside METEOR's jar, each parsed when it is first needed."""

    def __init__(self, jar: Path) -> None:
        self.jar = jar

    def relate(self, vocabulary: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """Numbers of words that match, and their kinds of match, paraphrases aside. Equal words are exact only."""
        same, stems, senses = (defaultdict[object, list[int]](list) for _ in range(3))
        for number, word in enumerate(vocabulary):
            same[java_hash(word)].append(number)
            stems[java_hash(self.stem(word))].append(number)
            for sense in self.senses(word):
                senses[sense].append(number)
        exact, stem, synonym = (_each_with_each(groups.values()) for groups in (same, stems, senses))
        stem, synonym = stem - exact, synonym - exact
        kinds = np.repeat([EXACT, STEM, SYNONYM], [len(exact), len(stem), len(synonym)])
        one, other = np.array([*exact, *stem, *synonym], np.int64).reshape(-1, 2).T
        return one, other, kinds

    @cache  # noqa: B019 (there is one lexicon a process)
    def stem(self, word: str) -> str:
        return str(self._stemmer.stemWord(word))

    @cached_property
    def _stemmer(self):  # type: ignore[no-untyped-def]
        try:
            import snowballstemmer
        except ImportError as error:
            raise MissingExtra("METEOR needs a stemmer: pip install 'groundling[score]'") from error
        return snowballstemmer.stemmer("english")

    @cache  # noqa: B019
    def senses(self, word: str) -> frozenset[str]:
        """Synsets of the word and of its base forms: irregular ones by list, others by their suffix."""
        synsets = self._synsets.get(word, "").split()
        bases = self._bases.get(word) or [self._base(word)]
        return frozenset(synsets + [sense for base in bases for sense in self._synsets.get(base, "").split()])

    def _base(self, word: str) -> str:
        """The first form with another ending that has synsets; "" when none does. "ful" is put back afterwards."""
        if word.endswith("ss") or len(word) <= 2:
            return word
        for ending, instead in SUFFIXES:
            if word.endswith(ending) and (form := word.removesuffix(ending) + instead) in self._synsets:
                return form + "ful" * word.endswith("ful")
        return ""

    @cached_property
    def function_words(self) -> frozenset[str]:
        return frozenset(self._read("function/english.words").split())

    @cached_property
    def prefixes(self) -> dict[str, bool]:
        """Abbreviations that keep their dot; True: only before a number."""
        rows = (line.split() for line in self._read("nonbreaking/english.prefixes").splitlines())
        return {row[0]: row[1:2] == ["#NUMERIC_ONLY#"] for row in rows if row and not row[0].startswith("#")}

    @cached_property
    def _synsets(self) -> dict[str, str]:
        lines = self._read("synonym/english.synsets").split("\n")
        return dict(zip(lines[::2], lines[1::2], strict=False))

    @cached_property
    def _bases(self) -> dict[str, list[str]]:
        bases: dict[str, list[str]] = defaultdict(list)
        lines = self._read("synonym/english.exceptions").split("\n")
        for base, forms in zip(lines[::2], lines[1::2], strict=False):
            for form in forms.split():
                bases[form].append(base)
        return dict(bases)

    def _read(self, name: str) -> str:
        try:
            with ZipFile(self.jar) as jar:
                return jar.read(name).decode("utf-8")
        except (OSError, KeyError, BadZipFile, UnicodeDecodeError) as error:
            raise DataError(f"{self.jar} is damaged ({error}): pip install --force-reinstall pycocoevalcap") from error


def _each_with_each(groups: Iterable[list[int]]) -> set[tuple[int, int]]:
    return {(one, other) for group in groups for one in group for other in group}


@cache
def java_hash(text: str) -> int:
    """Java's String.hashCode, by which METEOR compares words: two in four thousand million are taken for one."""
    h = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        h = (31 * h + (high << 8) + low) & 0xFFFFFFFF
    return h
