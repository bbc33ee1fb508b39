"""Penn Treebank tokens, as the caption metrics count them.

Published caption scores are computed on the output of the Stanford PTBTokenizer 3.4.1, lower-cased, without
punctuation. This is that behaviour, oddities included: "don't" is "do n't", "cannot" is "can not", "(" is "-lrb-",
"3 1/2" is one token, an emoji is nothing.

How it works: at each place of the text every rule that can begin there is tried, and the one that reads furthest wins,
the earlier rule in the table if two read equally far. What a rule reads may be more than its token: the rest is
context, and is read again. A character that no rule knows is skipped.

A caption is one line, whatever it contains: the separators of lines (LF, CR, VT, FF, U+2028, U+2029) are spaces. The
original cuts a caption at all of these but LF and so moves every later caption to another image.
"""

from __future__ import annotations

import re
from functools import lru_cache

from groundling.text.ptb_characters import StandIns
from groundling.text.ptb_rules import MENTIONED, rules_by_first_character

PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])


def tokenize(text: str) -> list[str]:
    """The tokens of a caption that metrics count: lower-cased, punctuation left out."""
    if not _NEEDS_THE_WHOLE.search(text):
        return [token for chunk in text.split(" ") for token in _count_chunk(chunk)]
    tokens = lex(text.translate(_LINES))
    if tokens:
        tokens[-1] = tokens[-1].rstrip()  # a web address may hold spaces, but the official wrapper strips each line
    return _count(tokens)


def lex(text: str) -> list[str]:
    """All tokens, punctuation included, in the case of the text. (The second period that the original adds to an
    abbreviation at the end of a sentence is left out.)"""
    shape = text.translate(_STAND_INS) + "\n"
    tokens, place, end = [], 0, len(text)
    while place < end:
        best, reach, tidy = None, place, None
        for rule in _RULES_AT[shape[place]]:
            found = rule.match(shape, place)
            if found and found.end() > reach:
                best, reach, tidy = found, found.end(), rule.tidy
        stop = best.end(1) if best else place + 1
        if best and (token := tidy(text[place:stop]) if tidy else text[place:stop]):
            tokens.append(token)
        place = stop
    return tokens


def _count(tokens: list[str]) -> list[str]:
    return [token for token in map(str.lower, tokens) if token not in PUNCTUATION]


@lru_cache(maxsize=1 << 16)
def _count_chunk(chunk: str) -> tuple[str, ...]:
    return tuple(_count(lex(chunk)))


_LINES = str.maketrans("\n\r\v\f\u2028\u2029", "      ")
_STAND_INS = StandIns(MENTIONED)
_RULES_AT = rules_by_first_character()
# Most captions can be read one chunk between spaces at a time. Not so where a token may hold a space or look beyond
# it: tags, web addresses with other kinds of space, "3 1/2", "(555) 123-4567", "No. 5", ". . .", "B. The", "Pty. ltd".
_NEEDS_THE_WHOLE = re.compile(
    r"[<\t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|[\d).] [\d.]|\. +[A-Z]|T[EY]\. "
)
