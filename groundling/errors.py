"""The errors that users see. Each says what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class GroundlingError(Exception):
    """Anything the command line reports as one line instead of a traceback."""


class DataError(GroundlingError):
    """A file from outside is not what its format promises; the message names the file and the cure."""


class MissingExtra(GroundlingError):
    """An optional dependency is not installed; the message holds the pip command."""


class RegionMismatch(GroundlingError):
    """A model meets regions of an extractor that it was not trained on."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Such as "; did you mean caption?", or nothing where no known word is like it."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Such as "unknown metric 'blue'; did you mean bleu?", with all that are known where none is like it."""
    known = list(known)
    near = did_you_mean(word, known) or f"; there are {', '.join(known)}"
    return f"unknown {what} {word!r}{near}"


def printable(text: str) -> str:
    """The text as a terminal may have it: control characters and what no encoding holds are escaped."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
