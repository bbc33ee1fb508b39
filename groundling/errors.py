"""The errors that users see. Each says what was expected, what came, and what to do."""

from __future__ import annotations


class GroundlingError(Exception):
    """Anything the command line reports as one line instead of a traceback."""


class DataError(GroundlingError):
    """A file from outside is not what its format promises; the message names the file and the cure."""


class MissingExtra(GroundlingError):
    """An optional dependency is not installed; the message holds the pip command."""


class RegionMismatch(GroundlingError):
    """A model meets regions of an extractor that it was not trained on."""


def printable(text: str) -> str:
    """The text as a terminal may have it: control characters and what no encoding holds are escaped."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
