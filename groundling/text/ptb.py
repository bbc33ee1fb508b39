"""Penn Treebank tokens, as the caption metrics count them.

Published caption scores are computed on the output of the Stanford PTBTokenizer 3.4.1, lower-cased, without
punctuation. This is that behaviour, oddities included: "don't" is "do n't", "cannot" is "can not", "(" is "-lrb-",
"3 1/2" is one token, an emoji is nothing.

How it works: at each place of the text every rule that can begin there is tried, and the one that reads furthest wins,
the earlier rule in the table if two read equally far. What a rule reads may be more than its token: the rest is
context, and is read again. A character that no rule knows is skipped.

A caption is one line, whatever it contains: the separators of lines (LF, CR, VT, FF, U+2028, U+2029) are spaces. The
original cuts a caption at all of these but LF and so moves every later caption to another image. And a caption is read
alone: where the original peeks at the next caption ("a sign with a P." loses its period before a line that begins with
"The"; one in 30,000 captions of COCO), it is taken to be the last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundling.text.ptb_characters import StandIns
from groundling.text.ptb_rules import ABBREVIATION, MENTIONED, SEVERAL_WORDS, Rule, rules_by_first_character

PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])


END = "\n"  # the piece behind each text


def tokenize(text: str) -> list[str]:
    """The tokens of a caption that metrics count: lower-cased, punctuation left out."""
    tokens = token_text(text)
    return tokens.split(" ") if tokens else []


def token_text(text: str) -> str:
    """The same tokens, joined by single spaces (no token holds a plain space)."""
    if not _UNUSUAL.search(text) or not _NEEDS_THE_WHOLE.search(text):
        return " ".join(filter(None, map(_CHUNKS.__getitem__, text.split(" "))))
    tokens = lex(text.translate(_LINES))
    if tokens:
        tokens[-1] = tokens[-1].rstrip()  # a web address may hold spaces, but the official wrapper strips each line
    return _counted(tokens)


def token_texts(texts: Sequence[str]) -> list[str]:
    """`token_text` of each."""
    return token_pieces(texts).texts()


def token_pieces(texts: Sequence[str]) -> Pieces:
    """The token texts of many captions, in pieces. Usual captions are joined, cut at spaces and looked up in one go."""
    joined = END.join(texts)
    lines = texts if joined.count(END) < len(texts) else [text.replace(END, " ") for text in texts]
    whole = {i for i in _unusual(END.join(lines)) if _NEEDS_THE_WHOLE.search(lines[i])}
    chunks, number = cut(lines, whole)
    return Pieces([END, *(_CHUNKS[c] if c[:1] != END else token_text(lines[int(c)]) for c in chunks[1:])], number)


class Pieces(NamedTuple):
    """Many texts as numbers of the pieces that they are made of: few are distinct, so few are ever looked at."""

    distinct: list[str]  # each of single words with single spaces between, or empty; the first is END
    number: NDArray[np.int64]  # of the pieces of all texts, end to end; 0, that is END, behind each text

    @property
    def plain(self) -> bool:
        """Whether the plain space is the only white space."""
        text = " ".join(self.distinct[1:])
        return (text.isascii() and text.isprintable()) or len(text.split()) == len([*filter(None, text.split(" "))])

    def texts(self) -> list[str]:
        """Each text, its pieces joined by single spaces."""
        joined = " ".join(map(self.distinct.__getitem__, self.number.tolist()))
        while "  " in joined:  # where a piece is empty
            joined = joined.replace("  ", " ")
        return [text.strip(" ") for text in joined.split(END)[:-1]]


class _Numbers(dict[str, int]):
    def __missing__(self, piece: str) -> int:
        self[piece] = number = len(self)
        return number


def cut(texts: Sequence[str], whole: Collection[int] = ()) -> Pieces:
    """Texts cut at plain spaces. Text i of `whole` is one piece, END and its number i: what stands for it is for the
    caller to say; no other text may hold END."""
    lines = [f"{END}{i}" if i in whole else text for i, text in enumerate(texts)] if whole else texts
    pieces = f" {END} ".join([*lines, ""]).split(" ")[:-1] if texts else []
    numbers = _Numbers({END: 0})
    number = np.fromiter(map(numbers.__getitem__, pieces), np.int64, len(pieces))
    return Pieces([*numbers], number)


def _unusual(joined: str) -> list[int]:
    """Numbers of the lines that may need to be read as a whole."""
    data = np.frombuffer(joined.encode(errors="surrogatepass"), np.uint8)
    odd = _IS_ODD[data]
    odd[:-1] |= _IS_ODD_BEFORE_A_SPACE[data[:-1]] & (data[1:] == ord(" "))
    ends = np.flatnonzero(data == ord(END))
    return np.unique(np.searchsorted(ends, np.flatnonzero(odd))).tolist()  # type: ignore[no-any-return]


def lex(text: str) -> list[str]:
    """All tokens, punctuation included, in the case of the text. (The second period that the original adds to an
    abbreviation at the end of a sentence is left out.)"""
    shape = text.translate(_STAND_INS) + "\n"
    tokens, position, end = [], 0, len(text)
    fails: dict[Rule, int] = {}  # up to where a rule is known to fail
    while position < end:
        best, reach, tidy = None, position, None
        for rule in _RULES_AT[shape[position]]:
            if rule.run and fails.get(rule, 0) > position:
                continue
            match = rule.match(shape, position)
            if match and match.end() > reach:
                best, reach, tidy = match, match.end(), rule.tidy
            elif rule.run and not match and (run := rule.run(shape, position)):
                fails[rule] = run.end()
        stop = best.end(1) if best else position + 1
        if best and (token := tidy(text[position:stop]) if tidy else text[position:stop]):
            tokens.append(token)
        position = stop
    return tokens


def _counted(tokens: list[str]) -> str:
    return " ".join(token for token in map(str.lower, tokens) if token not in PUNCTUATION)


def _is_abbreviation(chunk: str) -> bool:
    return chunk[-1] == "." and ABBREVIATION.fullmatch(chunk) is not None


class _Chunks(dict[str, str]):
    """What becomes of a chunk between spaces: few of them are ever new."""

    def __missing__(self, chunk: str) -> str:
        word = chunk[:-1] if chunk[-1:] in (".", ",") else chunk
        tokens = word.lower()
        if not (word.isascii() and word.isalpha()) or tokens in SEVERAL_WORDS or _is_abbreviation(chunk):
            tokens = _counted(lex(chunk))
        if len(self) < 1 << 17 and len(chunk) < 64:  # at most some 20 MB, whatever is read
            self[chunk] = tokens
        return tokens


_CHUNKS = _Chunks()
_LINES = str.maketrans("\n\r\v\f\u2028\u2029", "      ")
_STAND_INS = StandIns(MENTIONED)
_RULES_AT = rules_by_first_character()
# Most captions can be read one chunk between spaces at a time. Not so where a token may hold a space or look beyond
# it: tags, web addresses with other kinds of space, "3 1/2", "(555) 123-4567", "No. 5", ". . .", "B. The", "Pty. ltd".
_UNUSUAL = re.compile(r"[^A-Za-z ,'\-](?!\Z)")  # before the last character; most captions have none
_NEEDS_THE_WHOLE = re.compile(
    r"[<\t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
    r"|[\d).] [\d.]|(?<![A-Za-z]{2})\. +[A-Z]|T[EY]\. "
)
# The same, roughly, of bytes: what is not here is not there.
_IS_ODD = np.array([byte >= 0x80 or (byte < 0x20 and chr(byte) != END) or chr(byte) == "<" for byte in range(256)])
_IS_ODD_BEFORE_A_SPACE = np.array([chr(byte) in "0123456789)." for byte in range(256)])
