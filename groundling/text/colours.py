"""Words that name colours, and which of them a phrase of a sentence has: its own, and those of what it wears or holds.

"a man in a red shirt holding a black dog": the man has red and black, the shirt red, the dog black.
"""

from __future__ import annotations

from collections.abc import Sequence

from groundling.types import Span

COLOURS = ("black", "white", "gray", "brown", "tan", "red", "orange", "yellow", "green", "blue", "purple", "pink")
WORDS = {  # a word -> the colours that a thing may have of which people say it
    "black": ("black",),
    "dark": ("black",),
    "white": ("white",),
    "gray": ("gray",),
    "grey": ("gray",),
    "green": ("green",),
    "blue": ("blue",),
    "brown": ("brown", "tan", "orange"),
    "tan": ("tan", "brown"),
    "beige": ("tan",),
    "golden": ("tan", "brown", "orange"),
    "blond": ("tan", "yellow"),
    "blonde": ("tan", "yellow"),
    "red": ("red", "pink"),
    "pink": ("pink", "red"),
    "orange": ("orange", "red"),
    "yellow": ("yellow", "orange"),
    "purple": ("purple", "pink"),
}
WORN = frozenset({"in", "wearing", "wears", "dressed", "with", "holding", "carrying"})  # between a thing and its own
BEFORE_WORN = WORN | {"is", "are"}  # "is wearing", "dressed in"


def colour_words(tokens: Sequence[str], phrases: Sequence[Span]) -> list[tuple[str, ...]]:
    """The words for colours that each phrase of a sentence has; phrases are spans of its tokens, in order.

    What follows a thing that somebody wears or holds is that person's too: "a man in a red shirt with a black dog".
    """
    own = [tuple(token for token in tokens[start:end] if token in WORDS) for start, end in phrases]
    words, wearer = list(own), list(range(len(phrases)))
    for j, (start, _) in enumerate(phrases):
        for i, (_, end) in enumerate(phrases[:j]):
            if _is_worn(tokens[end:start]):
                wearer[j] = wearer[i]
                words[wearer[i]] += own[j]
    return words


def _is_worn(between: Sequence[str]) -> bool:
    """Do these words say that the thing behind them is on the one before them?"""
    return 1 <= len(between) <= 2 and between[-1] in WORN and between[0] in BEFORE_WORN
