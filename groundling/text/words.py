"""From a text to the words that models see: lower-cased, without punctuation, each with its characters in the text.

Apostrophes and hyphens inside a word stay ("t-shirt", "man's"), as does a possessive that stands alone ("the man 's
hat", as some corpora print it). Typographic forms of both become the plain ones. An emoji is a word. Everything else
that is neither letter, mark nor digit separates words and is dropped.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

from groundling.types import Caption, Span

CLITIC = r"(?<!\S)['’](?:s|re|ve|ll|d|m)(?!\S)"
ASCII_WORD = re.compile(rf"[a-z0-9]+(?:['-][a-z0-9]+)*|{CLITIC}", re.IGNORECASE | re.ASCII)
PLAIN = str.maketrans({"’": "'", "ʼ": "'", "‐": "-", "‑": "-"})


def words(text: str) -> list[tuple[str, Span]]:
    """Each word, lower-cased, with the half-open span of its characters in `text`."""
    if text.isascii():
        return [(match[0].lower(), match.span()) for match in ASCII_WORD.finditer(text)]
    return [(_plain(match[0]), match.span()) for match in _unicode_word().finditer(text)]


def caption(text: str) -> Caption:
    """The caption with its tokens and their spans; `annotate` adds what a tagger knows."""
    tokens = words(text)
    return Caption(text, tuple(word for word, _ in tokens), tuple(span for _, span in tokens))


def _plain(word: str) -> str:
    """Lower-cased, composed ("é" as one character), with the apostrophe and hyphen of the keyboard."""
    return unicodedata.normalize("NFC", word.lower()).translate(PLAIN)


@cache
def _unicode_word() -> re.Pattern[str]:
    """The pattern of a word in any script, made when the first text that needs it comes.

    Python's `\\w` holds no combining marks, without which "é" written as two characters and most words of Hindi or
    Thai would fall apart; so they are collected here.
    """
    letter = rf"(?:[^\W_]|[{_marks()}])"
    picture = (
        r"[\U0001F000-\U0001F1E5\U0001F200-\U0001F3FA\U0001F400-\U0001FAFF\u2300-\u23FF\u2600-\u27BF\u2B00-\u2BFF]"
    )
    tail = r"(?:[\uFE0E\uFE0F\u20E3\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F])*"  # variation, skin tone, flag tags
    emoji = rf"[\U0001F1E6-\U0001F1FF]{{2}}|{picture}{tail}(?:\u200D{picture}{tail})*"
    return re.compile(rf"{letter}+(?:['’ʼ‐‑-]{letter}+)*|{CLITIC}|{emoji}", re.IGNORECASE)


def _marks() -> str:
    """Combining marks as the inside of a character class, without the selectors that follow emoji."""
    top = min(sys.maxunicode, 0x1FFFF)
    marks = [i for i in range(0x300, top + 1) if unicodedata.category(chr(i))[0] == "M"]
    ranges: list[list[int]] = []
    for i in marks:
        if 0xFE00 <= i <= 0xFE0F or i == 0x20E3:
            continue
        if ranges and ranges[-1][1] == i - 1:
            ranges[-1][1] = i
        else:
            ranges.append([i, i])
    return "".join(f"\\U{low:08X}-\\U{high:08X}" for low, high in ranges)
