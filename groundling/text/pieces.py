"""Many texts as numbers of the pieces that they are made of: few pieces are distinct, so few are ever looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

END = "\n"  # the piece behind each text


class Pieces(NamedTuple):
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
