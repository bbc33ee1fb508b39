"""English lemmas: `lemma(word, tag)` for a word whose Penn tag is known, `lemma_of(token)` for one without context.

`lemma` gives what Stanford's Morphology (CoreNLP 3.4.1) gives: rules of spelling for nouns and verbs, and tables, in
`morphology.json`, of the words that break them. It is faithful to oddities: with the tag NN "granola" becomes
"granolum", because the rule for Latin plurals knows few of the words that are no plurals.

The official grounding evaluators ask a CoreNLP 3.9.1 server for the lemma of each token alone. `lemma_of` stands in for
it: it takes the first part of a token ("man's" -> "man") and guesses the tag from the form. Give the evaluators a table
of lemmas where theirs must be matched exactly.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

_V, _C = "[aeiou]", "[bcdfghjklmnpqrstvwxyz]"  # y is a consonant, except where it is named
_HARD = "[bcdfghjklmnpqrstvwxz]"  # a consonant other than y
_PREFIX = "(?:be|ex|in|mis|pre|pro|re)*"

# A verb without its -ed or -ing ends in a silent e (bak-ing, bake) unless its last letters say otherwise (load-ing):
_NO_E = re.compile(
    rf"""
    .+(?: [aeiouy][aeioy] | {_HARD}[bdfjkmnpqrtwxz] | [bcdfghjklmnpqrsvwxz]h | [rw]l | ss
        | er | [aeou]n | {_V}[pwx] | (?<![af])(?<![hlmp]o)us )
    | .*(?: {_C}{_V}(?:cc|gg|ll|vv) | {_V}{_V}[bdfhjklmnqrt] )
    | {_PREFIX}{_C}{_V}ng
    | .*{_V}.*{_C}(?:et|it|or)
    """,
    re.VERBOSE,
)
_YET_E = re.compile(  # and these end in it all the same (equip-, nucleat-, persuad-, explor-, complet-, recit-)
    rf"""
    .*qu{_V}{_C}(?<!uus) | .*{_V}{_C}{_C}eat | .+(?:[aiu]at|u{_V}d)
    | .*(?:{_C}(?:[cln]or|let)|[^aeiouc]tor)
    | {_PREFIX}{_C}+(?:et|it|or)
    """,
    re.VERBOSE,
)
_ES = re.compile(rf".+(?:x|[cs]h)|.*(?:{_HARD}[oz]|[^aeio]s)")  # what takes -es: box-es, hero-es, waltz-es, kiss-es
_ONLY_S = re.compile(rf".+(?:{_V}rs|ons|[af]us|[hlmp]ous)|.*sho")  # and what ends in e itself: hors-es, hous-es, sho-es

_PRONOUNS = {"her": "she", "him": "he", "his": "he", "me": "I", "us": "we", "our": "we", "them": "they"}
_PRONOUNS |= {"their": "they", "your": "you"}
_MODALS = {"ca": "can", "wo": "will", "sha": "shall", "'d": "would"}
_CLITICS = {"'m": "be", "'re": "be", "'ve": "have", "'ll": "will", "ai": "be"}  # as verbs


def lemma(word: str, tag: str) -> str:
    """The lemma of a word with a Penn tag, as Stanford's Morphology 3.4.1 has it; names (NNP, NNPS) stay as they are.

    One difference: that lexer trips over a hyphen at the end of a noun or verb and returns the tag too ("half-_NN").
    """
    if tag.startswith("NNP"):
        return word
    word_as_written, word = word, word.lower()
    if tag.startswith("NN"):
        return _noun(word)
    if tag.startswith("V"):
        return {("'d", "VBD"): "have", ("'s", "VBZ"): "be"}.get((word, tag)) or _CLITICS.get(word) or _verb(word)
    if tag.startswith("P"):
        return "I" if word_as_written == "I" else _PRONOUNS.get(word, word)
    if tag == "MD":
        return _MODALS.get(word, word)
    if word == "an" and tag.startswith("D"):
        return "a"
    return "not" if word == "n't" and tag.startswith(("RB", "XX")) else word


@cache
def lemma_of(token: str) -> str:
    """The lemma of a token without context: its tag is guessed from its form; nouns are the rule."""
    word = re.sub(r"(?<=.)(?:'(?:s|d|m|ll|re|ve)?|n't)$", "", token.lower()) or token.lower()
    tables = _tables()
    if word in tables["plain"]:
        return str(tables["plain"][word])
    if word in tables["nouns"] or word in tables["same"]:
        return _noun(word)
    if word in tables["verbs"] or re.fullmatch(r".*[aeiouy].*(?:ed|ing)", word):
        return _verb(word)
    return _noun(word)


def _noun(word: str) -> str:
    if re.fullmatch(r"[a-z0-9'.]*[^s.]s\.", word) and word not in ("mrs.", "ms."):  # mins.
        return f"{word[:-2]}."
    return _inflected(word, "nouns", _noun_rule)


def _verb(word: str) -> str:
    return _inflected(word, "verbs", _verb_rule)


def _inflected(word: str, table: str, rule: Any) -> str:
    """An irregular word, or the last part of a hyphened one, from the table; else by rule."""
    if not re.fullmatch(r"[a-z0-9'-]*[a-z0-9']", word):
        return word
    irregular = _tables()[table]
    if word in irregular:
        return str(irregular[word])
    if table == "nouns" and word in _tables()["same"]:
        return word
    head, dash, last = word.rpartition("-")
    return f"{head}{dash}{irregular[last] if last in irregular else rule(last)}"


def _noun_rule(word: str) -> str:
    if word in _tables()["same"]:
        return word
    for ending, replacement in _NOUN_ENDINGS:
        if match := ending.fullmatch(word):
            return match[1] + replacement
    return _without_s(word)


_NOUN_ENDINGS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("(.*m)en", "an"),
        ("(.+zo|.+hedr)a", "on"),
        ("(.+i)ia", "um"),
        ("(.*(?:emia|enia|phobia|philia)|[ivxlcdm]*i|.+itis)", ""),
        ("(.+i|.+l)a", "um"),
        ("(.+a)ta", ""),
        ("(.+)i", "us"),
        ("(.+a)e", ""),
        ("(.*wi)ves", "fe"),
    )
]


def _without_s(word: str) -> str:
    """Undo the -s of a plural or of a third person: it is not one after s, u, and in -sis."""
    if len(word) < 2 or word in ("as", "is") or not word.endswith("s") or word[-2] in "su" or word.endswith("sis"):
        return word
    if re.fullmatch(f".+{_C}ies", word):
        return f"{word[:-3]}y"
    stem = word[:-2]
    return stem if word.endswith("es") and _ES.fullmatch(stem) and not _ONLY_S.fullmatch(stem) else word[:-1]


def _verb_rule(word: str) -> str:
    tables = _tables()
    stem = next((word[: -len(suffix)] for suffix in ("ing", "ed", "es") if word.endswith(suffix)), "")
    doubled = re.fullmatch(r".+(?:([^c])\1|ck)", stem) and stem[:-1] in tables["doubling"]
    if doubled and (not word.endswith("es") or stem[-1] in "sz"):
        return stem[:-1]
    if stem in tables["silent"]:
        return f"{stem}e"
    if word.endswith("s") or not stem:
        return _without_s(word)
    if stem in tables["keep"]:
        return stem
    if not re.search("[aeiouy]", stem):  # thing, shred
        return stem if re.fullmatch(f".+(?:ss|{_HARD}z)", stem) else word
    return _without_ed(stem) if word.endswith("ed") else _without_ing(stem)


def _without_ed(stem: str) -> str:
    if stem.endswith("e"):  # need
        return f"{stem}ed"
    if re.fullmatch(".+[^aeiou]i", stem):
        return f"{stem[:-1]}y"
    return stem if stem.endswith(("quer", "quor")) else _with_e(stem)


def _without_ing(stem: str) -> str:
    if re.fullmatch(f".+[oy](?<!^[aeiouy]o)(?<!qu[aeiou]y)|.*{_V}.*{_C}nor", stem):
        return stem
    return _with_e(stem)


def _with_e(stem: str) -> str:
    return stem if _NO_E.fullmatch(stem) and not _YET_E.fullmatch(stem) else f"{stem}e"


@cache
def _tables() -> dict[str, Any]:
    """Words that break the rules.

    verbs, nouns: form -> lemma · same: nouns that look like plurals and are not · doubling: verbs that double their
    last letter (stop, stopped) · silent, keep: stems whose final e the rules would lose, or invent · plain: words that
    `lemma_of` should not take for a noun or a verb, and what it makes of them.
    """
    tables: dict[str, Any] = json.loads(Path(__file__).with_name("morphology.json").read_text("utf-8"))
    return {name: value if isinstance(value, dict) else frozenset(value) for name, value in tables.items()}
