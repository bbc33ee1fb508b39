"""The tokens that METEOR 1.5 compares when it is called with `-l en -norm`: lower-cased, punctuation kept as tokens.

Its input is text that was tokenised before, so little is left to do, but that little decides scores: hyphens part
words, "i'm" becomes two tokens, symbols stand alone, and a final dot goes unless it ends a known abbreviation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LETTERS = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
SPACE = " \t\n\x0b\f\r"  # what Java's \s is

SYMBOL = re.compile(rf"([^0-9{LETTERS}{SPACE}.'`,\-‘’])")
DOTS = re.compile(r"\.(\.+)")
COMMAS = [re.compile(p) for p in (r"([^0-9]),([^0-9])", r"([0-9]),([^0-9])", r"([^0-9]),([0-9])")]
QUOTE = re.compile("[`‘’]")
QUOTES = re.compile("[“”]|''")
HYPHEN = re.compile(rf"([0-9{LETTERS}.])-([0-9{LETTERS}])")
APOSTROPHES = [
    (re.compile(rf"([^{LETTERS}])'([^{LETTERS}])"), r"\1 ' \2"),
    (re.compile(rf"([^{LETTERS}0-9])'([{LETTERS}])"), r"\1 ' \2"),
    (re.compile(rf"([{LETTERS}])'([^{LETTERS}])"), r"\1 ' \2"),
    (re.compile(rf"([{LETTERS}])'([{LETTERS}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
]
A_LETTER = re.compile(f"[{LETTERS}]")
PLAIN = re.compile("[a-z0-9 ]*")
WORD = re.compile(r"[^ \t\n\f\r]+")
WIDE = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")  # spaces, but only once dots are decided
CONTROLS = "".join(map(chr, range(33)))


def tokens(text: str, prefixes: Mapping[str, bool]) -> list[str]:
    """Tokens of one line. `prefixes`: abbreviations that keep their dot, True for those that need a number behind."""
    if PLAIN.fullmatch(text):
        return text.split()
    text = _dotted(WORD.findall(_spaced(text)), prefixes).lower()
    return WORD.findall(WIDE.sub(" ", text).strip(CONTROLS))


def _spaced(text: str) -> str:
    """Spaces around what is a token of its own. Rows of dots hide behind a letter-like mark until the end."""
    text = SYMBOL.sub(r" \1 ", f" {text} ")
    text = DOTS.sub(lambda dots: f" {DOT * len(dots[0])} ", text)
    for comma in COMMAS:
        text = comma.sub(r"\1 , \2", text)
    text = QUOTES.sub(' " ', QUOTE.sub("'", text))
    text = text.replace("–", "-").replace("--", "-")
    text = HYPHEN.sub(r"\1 \2", text)
    for apostrophe, apart in APOSTROPHES:
        text = apostrophe.sub(apart, text)
    return text


DOT = "\ue000"


def _dotted(words: list[str], prefixes: Mapping[str, bool]) -> str:
    """Final dots: "u.s." loses its dots, "mr." keeps its own, the rest stand alone."""
    parts = []
    for i, word in enumerate(words):
        stem, following = word[:-1], words[i + 1] if i + 1 < len(words) else ""
        if len(word) < 2 or not word.endswith("."):
            parts.append(word)
        elif "." in stem and A_LETTER.search(stem):
            parts.append(word.replace(".", ""))
        elif (
            prefixes.get(stem) is False
            or ("a" <= following[:1] <= "z")
            or (prefixes.get(stem) and "0" <= following[:1] <= "9")
        ):
            parts.append(word)
        else:
            parts.append(f"{stem} .")
    return " ".join(parts).replace(DOT, ".")
