"""What METEOR knows of English words: stems, synonyms, function words. Read from the files of `pycocoevalcap`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import cache, cached_property
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from groundling.errors import DataError, MissingExtra

SUFFIXES = (  # ending -> what takes its place, tried in this order
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man")),
    *(("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)  # kinds of match


class Lexicon:
    """The word lists inside METEOR's jar, each parsed when it is first needed."""

    def __init__(self, jar: Path) -> None:
        self.jar = jar

    def relate(self, vocabulary: Collection[str]) -> dict[str, dict[str, tuple[int, ...]]]:
        """For each word the words that it matches, and in which ways, paraphrases aside. Equal words are exact only."""
        same, stems, senses = (defaultdict(list) for _ in range(3))
        for word in vocabulary:
            same[java_hash(word)].append(word)
            stems[java_hash(self.stem(word))].append(word)
            for sense in self.senses(word):
                senses[sense].append(word)
        related: dict[str, dict[str, tuple[int, ...]]] = {}
        for word in vocabulary:
            mine: dict[str, tuple[int, ...]] = {other: (STEM,) for other in stems[java_hash(self.stem(word))]}
            for other in {other for sense in self.senses(word) for other in senses[sense]}:
                mine[other] = (*mine.get(other, ()), SYNONYM)
            related[word] = mine | {other: (EXACT,) for other in same[java_hash(word)]}
        return related

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


@cache
def java_hash(text: str) -> int:
    """Java's String.hashCode, by which METEOR compares words: two in four thousand million are taken for one."""
    h = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        h = (31 * h + (high << 8) + low) & 0xFFFFFFFF
    return h
