"""The noun phrases of a sentence, such that every noun is in one.

The tagger's own noun chunks are the beginning. They leave out nouns where its parser fails ("a dog runs while a cat
sleeps" has only the cat), and they join what a list names without commas. So nouns without a chunk get a phrase of
their own, with the articles, numbers and adjectives before them; a chunk of two things is split; and a word that is
known as a noun counts as one where the sentence needs one ("Elephant", "fire hydrant").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from groundling.errors import GroundlingError
from groundling.text import words
from groundling.text.annotate import annotate
from groundling.text.colours import colour_words
from groundling.text.compounds import compounds
from groundling.text.wordnet import wordnet
from groundling.types import Caption, Span

JOINER = "of"  # makes one phrase of two: "a group of people"
MOST_WORDS = 1000  # of a sentence
PREPOSITIONS = {("in", "front", "of"), ("on", "top", "of"), ("in", "back", "of")}
PEOPLE = frozenset({"he", "she", "him", "they", "them"})  # pronouns that are looked for
ARTICLES = frozenset({"a", "an", "the", "his", "her", "my", "its", "their", "your"})
SINGULAR = frozenset({"a", "an", "one", "each", "every", "another", "this", "that"})
ATTRIBUTES = frozenset({"adult", "baby", "mother", "pet", "toy"})  # before another animal or person, say what kind
BEFORE = ("CD", "DT", "JJ", "PDT", "PRP$")  # tags of what belongs to the noun behind it
CLAUSE = ("DT", "IN", "MD", "PRP$", "TO", "V")  # tags that a mere list of things does not have
AFTER_VERB = ("DT", "IN", "PRP", "RB", "RP", "TO", "VBG")  # tags of what follows a verb rather than a plural
CLOSED = ("CC", "CD", "DT", "EX", "IN", "MD", "PDT", "POS", "PRP", "RP", "TO", "W")  # tags of words that name nothing
OPEN = frozenset({"FW", "JJ", "UH", "VB", "XX"})  # tags that the tagger gives to nouns that it never saw
NO_THING = frozenset({"other", "same", "next", "last", "first", "latter", "former"})  # adjectives that stand for a noun
STOP = re.compile(r"[,;:.!?/|()\[\]\n\r\t•]|(?<!\w)[-–—]+(?!\w)|[–—]")
POSSESSIVE = "'s"


@dataclass(frozen=True)
class NounPhrase:
    """Part of a sentence that names a thing."""

    text: str
    span: Span  # its characters in the sentence
    tokens: tuple[str, ...]  # the words that models see
    head: str  # its last noun; a compound is one: "fire hydrant"
    lemma: str = ""  # of the head; empty for a pronoun
    plural: bool = False  # does the head name several things?
    colours: tuple[str, ...] = ()  # words for colours that it has, or what it wears


def noun_phrases(sentences: Sequence[str]) -> list[list[NounPhrase]]:
    """The noun phrases of any sentences, lists, questions or fragments; two with "of" between them are one."""
    captions = [with_stops(sentence) for sentence in sentences]
    longest = max((len(caption.tokens) for caption in captions), default=0)
    if longest > MOST_WORDS:
        raise GroundlingError(f"a sentence has {longest} words, at most {MOST_WORDS} are read: split it")
    return [_phrases(caption) for caption in annotate(captions)]


def _phrases(caption: Caption) -> list[NounPhrase]:
    known, spans = compounds(caption), joined(caption)
    colours = colour_words(caption.tokens, spans)
    return [replace(_phrase(caption, span, known), colours=some) for span, some in zip(spans, colours, strict=True)]


def with_stops(sentence: str) -> Caption:
    """The caption, its commas and other stops being tokens too: the tagger was trained with them."""
    tokens = words.words(sentence)
    inside = {i for _, span in tokens for i in range(*span)}
    stops = [("," if stop[0].isspace() else stop[0], stop.span()) for stop in STOP.finditer(sentence)]
    rows = sorted([*tokens, *(row for row in stops if row[1][0] not in inside)], key=lambda row: row[1])
    return Caption(sentence, tuple(token for token, _ in rows), tuple(span for _, span in rows))


def joined(caption: Caption) -> list[Span]:
    """The noun phrases of an annotated caption, as spans of tokens."""
    out: list[Span] = []
    for start, end in _simple(caption):
        if out and out[-1][1] == start - 1 and caption.tokens[start - 1] == JOINER:
            out[-1] = out[-1][0], end
        else:
            out.append((start, end))
    return out


def _phrase(caption: Caption, span: Span, known: Sequence[Span]) -> NounPhrase:
    start, end = span
    first, last = caption.spans[start][0], caption.spans[end - 1][1]
    if caption.tokens[end - 1].endswith(POSSESSIVE):
        last -= len(POSSESSIVE)
    compound = next((one for one in known if one[1] == end and one[0] >= start), (end - 1, end))
    tokens = tuple(token.removesuffix(POSSESSIVE) for token in caption.tokens[start:end] if is_word(token))
    head = " ".join(caption.tokens[slice(*compound)]).removesuffix(POSSESSIVE)
    tag = caption.tags[end - 1]
    lemma = " ".join((*caption.tokens[compound[0] : end - 1], caption.lemmas[end - 1].lower())).removesuffix(POSSESSIVE)
    plural = tag in ("NNS", "NNPS")
    return NounPhrase(
        caption.text[first:last], (first, last), tokens, head, "" if tag.startswith("PRP") else lemma, plural
    )


def _simple(caption: Caption) -> Iterator[Span]:
    """Phrases before "of" joins them."""
    known = compounds(caption)
    nouns = _nouns(caption, known)
    begins = {i: start for start, end in known for i in range(start, end)}
    chunks: list[Span] = []
    for first, end in _chunks(caption, nouns):
        start = begins.get(first, first)
        if chunks and start < chunks[-1][1]:  # a compound began there: "a pair" and "pair of scissors"
            start = chunks.pop()[0]
        chunks.append((start, end))
    for chunk in chunks:
        for span in _parts(caption, chunk, nouns, known):
            yield from _listed(caption, span, nouns, known)


# ---------------------------------------------------------------- which words are nouns


def _nouns(caption: Caption, known: Sequence[Span]) -> list[bool]:
    """Which words are nouns: the tagger's, ends of compounds, and those without which something would be missing."""
    ends = {end - 1 for _, end in known}
    nouns = [tag.startswith("NN") or i in ends for i, tag in enumerate(caption.tags)]
    nouns = [noun and is_word(caption.tokens[i]) and not _is_preposition(caption, i) for i, noun in enumerate(nouns)]
    for i in range(1, len(nouns)):
        if nouns[i] and i not in ends and _is_verb_after(caption, i, nouns):
            nouns[i] = False
    for start, end in _clauses(caption):
        if not any(nouns[start:end]):
            nouns[start:end] = _needed(caption, (start, end), nouns)
    for i in range(len(nouns)):
        missing = i > 0 and (_is_missing(caption, i, nouns) or _is_listed_plural(caption, i))
        nouns[i] = nouns[i] or missing or _is_first(caption, i) or _is_new_word(caption, i, nouns)
    return nouns if any(nouns) or PEOPLE & set(caption.tokens) else _last_resort(caption)


def _last_resort(caption: Caption) -> list[bool]:
    """Of a sentence without a noun, the last word that may be one that nobody knows: "secretword/JJ"."""
    last = max((i for i, tag in enumerate(caption.tags) if tag in OPEN and is_word(caption.tokens[i])), default=-1)
    return [i == last for i in range(len(caption.tokens))]


def _is_new_word(caption: Caption, i: int, nouns: Sequence[bool]) -> bool:
    """Has an article nothing but this word, which is in no dictionary? "a secretword/JJ and a dog"."""
    if not i or caption.tokens[i - 1] not in ARTICLES or caption.tags[i] not in OPEN or caption.tokens[i] in NO_THING:
        return False
    if _continues(caption, i) or wordnet().base(caption.tokens[i]) is not None:
        return False
    behind = caption.tags[i + 1 : i + 3]
    if behind[:1] == ("CC",):
        return len(behind) == 2 and behind[1].startswith(("DT", "PRP$"))
    return not behind or not (nouns[i + 1] or behind[0].startswith(("JJ", "V", "RB", "CD")))


def _is_preposition(caption: Caption, i: int) -> bool:
    """Is it the noun inside "in front of"?"""
    return i > 0 and caption.tokens[i - 1 : i + 2] in PREPOSITIONS


def _is_verb_after(caption: Caption, i: int, nouns: Sequence[bool]) -> bool:
    """Is this plural a verb? "a bear fishes in a river": what "a" begins does not end with a plural."""
    if not _disagrees(caption, i, nouns) or any(nouns[i + 1 : i + 2]):
        return False
    following = caption.tags[i + 1] if i + 1 < len(nouns) else ""
    if following.startswith(AFTER_VERB):
        return caption.tokens[i + 1] != JOINER
    return not _is_kind_of(caption.tokens[i], "object")


def _disagrees(caption: Caption, i: int, nouns: Sequence[bool]) -> bool:
    """Does this plural follow a noun after "a"?"""
    if caption.tags[i] not in ("NNS", "NNPS") or not nouns[i - 1] or caption.tags[i - 1] not in ("NN", "NNP"):
        return False
    start = i
    while start and (nouns[start - 1] or caption.tags[start - 1].startswith("JJ")):
        start -= 1
    return start > 0 and caption.tokens[start - 1] in SINGULAR


def _needed(caption: Caption, clause: Span, nouns: Sequence[bool]) -> list[bool]:
    """Nouns of a clause in which the tagger sees none: the last word that can be one ("elephant/VB").

    None is needed where the noun follows the comma, "a large, brown dog", and no adjective behind "is" is one.
    """
    can = [i for i in range(*clause) if _names_something(caption, i) and not _is_predicate(caption, i)]
    if can and _continues(caption, can[-1]) and any(nouns[clause[1] :]):
        can = []
    verb = any(tag.startswith("V") for tag in caption.tags[slice(*clause)])
    alone = len(can) == 1 or not verb or clause[1] - clause[0] <= 2
    return [bool(can) and alone and i == can[-1] for i in range(*clause)]


def _is_predicate(caption: Caption, i: int) -> bool:
    """Is it what somebody is? "she is tall/JJ"."""
    return i > 1 and caption.tags[i] == "JJ" and caption.lemmas[i - 1] == "be" and caption.tokens[i - 2] in PEOPLE


def _continues(caption: Caption, i: int) -> bool:
    """Is it an adjective with a comma and another one behind it?"""
    tags = caption.tags[i + 1 : i + 3]
    return caption.tags[i].startswith("JJ") and len(tags) == 2 and tags[0] == "," and tags[1].startswith(("JJ", "VB"))


def _is_missing(caption: Caption, i: int, nouns: Sequence[bool]) -> bool:
    """Has an article, or an owner, nothing but this word? "on a sidewalk/RB", "the man's surfboard/JJ"."""
    before = caption.tokens[i - 1] in ARTICLES or caption.tokens[i - 1].endswith(POSSESSIVE)
    after = i + 1 == len(nouns) or not (nouns[i + 1] or caption.tags[i + 1].startswith(("JJ", "V", "RB", "CD", "CC")))
    return before and after and not _continues(caption, i) and _names_something(caption, i)


def _is_first(caption: Caption, i: int) -> bool:
    """Does a fragment begin with a person or an animal that the tagger took for a verb? "bear/VB on grass"."""
    first = i == 0 or not is_word(caption.tokens[i - 1])
    return first and caption.tags[i] in ("VB", "UH") and caption.tags[i + 1 : i + 2] == ("IN",) and _lives(caption, i)


def _is_listed_plural(caption: Caption, i: int) -> bool:
    """Is it a plural that the tagger took for a verb? "kids dogs balloons": no verb on -s follows a plural."""
    if not is_word(caption.tokens[i]) or caption.tags[i] != "VBZ" or caption.tags[i - 1] != "NNS":
        return False
    start, end = _clause(caption, i)
    others = caption.tags[start:i] + caption.tags[i + 1 : end]
    plural = i > start and not any(tag.startswith(CLAUSE) for tag in others)
    return plural and wordnet().base(caption.tokens[i]) is not None


def _names_something(caption: Caption, i: int) -> bool:
    token, tag = caption.tokens[i], caption.tags[i]
    return is_word(token) and not tag.startswith(CLOSED) and tag != "VBZ" and wordnet().base(token) is not None


# ---------------------------------------------------------------- which words belong together


def _chunks(caption: Caption, nouns: Sequence[bool]) -> list[Span]:
    """The tagger's chunks, cut to end with their last noun, and one for each noun that is in none of them."""
    spans, taken = [], set[int]()
    for start, end in caption.chunks:
        start = next((i for i in range(start, end) if i not in taken), end)
        if inside := [i for i in range(start, end) if nouns[i]]:
            start, end = _start(caption, start, taken), _noun_end(nouns, inside[-1])
            spans.append((start, end))
        elif caption.tokens[end - 1] in PEOPLE:
            spans.append((end - 1, end))
        taken.update(range(start, end))
    for i, noun in enumerate(nouns):
        if noun and i not in taken:
            end = _noun_end(nouns, i)
            spans.append((_start(caption, i, taken), end))
            taken.update(range(i, end))
    return sorted(spans)


def _noun_end(nouns: Sequence[bool], i: int) -> int:
    while i < len(nouns) and nouns[i]:
        i += 1
    return i


def _start(caption: Caption, i: int, taken: set[int]) -> int:
    """Where the articles, numbers and adjectives before a noun begin: "a large, brown dog"."""
    while i and i - 1 not in taken:
        comma = i > 1 and _continues(caption, i - 2)
        if not comma and not (is_word(caption.tokens[i - 1]) and caption.tags[i - 1].startswith(BEFORE)):
            break
        i -= 2 if comma else 1
    return i


def _parts(caption: Caption, chunk: Span, nouns: Sequence[bool], known: Sequence[Span]) -> Iterator[Span]:
    """A chunk, split behind a noun that anything but a noun follows ("red car | blue truck") and behind a possessor."""
    start, end = chunk
    start = next((i for i in range(start, end) if _opens(caption, i)), start)
    for i in range(start, end - 1):
        apart = not nouns[i + 1] or caption.tokens[i].endswith(POSSESSIVE) or _disagrees(caption, i + 1, nouns)
        if nouns[i] and apart and caption.tokens[i + 1] != JOINER and not _in_one(known, i):
            yield start, i + 1
            start = next((at for at in range(i + 1, end) if _opens(caption, at)), end - 1)
    yield start, end


def _in_one(known: Sequence[Span], i: int) -> bool:
    """Are a word and the next in one compound?"""
    return any(start <= i < end - 1 for start, end in known)


def _opens(caption: Caption, i: int) -> bool:
    """May a phrase begin with this word? Not with a stop, "what", "how", "and" or "'s"."""
    tag, token = caption.tags[i], caption.tokens[i]
    return is_word(token) and token != POSSESSIVE and not tag.startswith(("W", "CC", "POS", "IN"))


def _listed(caption: Caption, span: Span, nouns: Sequence[bool], known: Sequence[Span]) -> Iterator[Span]:
    """The things of a list without commas: "dog cat tree". Elsewhere neighbouring nouns are one thing."""
    if not all(nouns[slice(*span)]) or _is_sentence(caption, span[0], nouns):
        yield span
        return
    units = _units(span, known)
    start = span[0]
    for one, other in zip(units, units[1:], strict=False):
        if _apart(caption, one, other, len(units)):
            yield start, one[1]
            start = other[0]
    yield start, span[1]


def _is_sentence(caption: Caption, i: int, nouns: Sequence[bool]) -> bool:
    """Has the clause of a word one with a verb or the like, so that it is no mere list?"""
    return any(caption.tags[k].startswith(CLAUSE) for k in range(*_clause(caption, i)) if not nouns[k])


def _units(span: Span, known: Sequence[Span]) -> list[Span]:
    """A run of words as its compounds and the single words between them."""
    units, i = [], span[0]
    while i < span[1]:
        unit = next((one for one in known if one[0] == i and one[1] <= span[1]), (i, i + 1))
        units.append(unit)
        i = unit[1]
    return units


def _apart(caption: Caption, one: Span, other: Span, count: int) -> bool:
    """Do two neighbouring nouns of a list name two things?"""
    last = one[1] - 1
    if caption.tokens[last] in ATTRIBUTES:
        return False
    return (
        count > 2 or caption.tags[last] in ("NNS", "VBZ") or (_lives(caption, last) and _lives(caption, other[1] - 1))
    )


def _lives(caption: Caption, i: int) -> bool:
    return _is_kind_of(caption.tokens[i], "person") or _is_kind_of(caption.tokens[i], "animal")


def _is_kind_of(word: str, kind: str) -> bool:
    """By what the word most often means."""
    net = wordnet()
    synset, above = net.synset(word), net.synset(kind)
    return synset is not None and any(one == above for one in net.kinds(synset))


def _clauses(caption: Caption) -> list[Span]:
    """What stops part from one another."""
    stops = [-1, *(i for i, token in enumerate(caption.tokens) if not is_word(token)), len(caption.tokens)]
    return [(one + 1, other) for one, other in zip(stops, stops[1:], strict=False) if other > one + 1]


def _clause(caption: Caption, i: int) -> Span:
    """That of a word."""
    return next(one for one in _clauses(caption) if one[0] <= i < one[1])


def is_word(token: str) -> bool:
    return any(x.isalnum() for x in token) or not (token.isascii() or STOP.fullmatch(token))
