"""A study with people: which of two systems has the better box for a word of an image?

`compare` finds the words, `write` makes one self-contained page for all raters, `answers.read` and `answers.evaluate`
turn the answers into shares and agreement. (Ma et al. 2020, section 4.5.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from groundling.errors import DataError
from groundling.files import save_text
from groundling.report import embed, template
from groundling.types import GroundedCaption, Link


@dataclass(frozen=True)
class Question:
    """A word that both captions of an image have and ground; `tokens` and `places` are those of each system."""

    word: str
    tokens: tuple[int, int]
    places: tuple[tuple[Link, ...], tuple[Link, ...]]


@dataclass(frozen=True)
class Sheet:
    """An image with its questions. `left` is the system on the left, 0 or 1: the key to the answers."""

    id: str
    captions: tuple[GroundedCaption, GroundedCaption]
    questions: tuple[Question, ...]
    left: int
    raters: tuple[int, ...]  # who is shown it, counted from 0


def compare(
    first: Mapping[str, GroundedCaption], second: Mapping[str, GroundedCaption], n: int, seed: int, raters: int = 2
) -> list[Sheet]:
    """At most `n` images, drawn by the seed among those where both systems tie a word that they share to a place.

    Which system is on the left is drawn for each image. Each image is for two raters, and they have equally many.
    """
    if raters < 2:
        raise DataError(f"two people look at each image; {raters} are too few")
    both = [(id, first[id], second[id]) for id in first if id in second]
    asked = [(id, a, b, found) for id, a, b in both if (found := questions(a, b))]
    if not asked:
        raise DataError("no image has a word that both systems ground: there is nothing to compare")
    rng = Random(f"study {seed}")
    chosen = rng.sample(asked, min(n, len(asked)))
    sides = [rng.randrange(2) for _ in chosen]
    return [Sheet(id, (a, b), found, sides[i], two_of(i, raters)) for i, (id, a, b, found) in enumerate(chosen)]


def questions(a: GroundedCaption, b: GroundedCaption) -> tuple[Question, ...]:
    """The words with links in both captions; the second "man" of one goes with the second "man" of the other.

    Where both systems were given one sentence to ground, these are all its words with links.
    """
    of_a, of_b = _linked(a), _linked(b)
    shared = [(key, of_a[key], of_b[key]) for key in of_a if key in of_b]
    return tuple(Question(word, (t, u), (places, others)) for (word, _), (t, places), (u, others) in shared)


def _linked(caption: GroundedCaption) -> dict[tuple[str, int], tuple[int, tuple[Link, ...]]]:
    """(word, how often it came before) -> its token and links, where there are any."""
    found: dict[tuple[str, int], tuple[int, tuple[Link, ...]]] = {}
    before: dict[str, int] = {}
    for token, word in enumerate(caption.tokens):
        times = before[word] = before.get(word, -1) + 1
        if links := tuple(link for link in caption.links if link.token == token):
            found[word, times] = token, links
    return found


def two_of(image: int, raters: int) -> tuple[int, int]:
    """The raters of an image: of each `raters` images everybody has two, with another partner in the next ones."""
    first = image % raters
    return first, (first + 1 + image // raters % (raters - 1)) % raters


# ---------------------------------------------------------------- the page


def write(
    path: Path,
    sheets: Sequence[Sheet],
    pictures: Callable[[Sheet], Sequence[Image.Image]],
    systems: tuple[str, str],
    *,
    seed: int,
    raters: int = 2,
    side: int = 640,
) -> None:
    """Write the page. `pictures` gives the image, or the frames of the clip; `side` is how large they are embedded."""
    rows = [_row(sheet, pictures(sheet), side) for sheet in sheets]
    page = {"study": study_id(sheets, systems, seed, raters), "systems": systems, "raters": raters, "sheets": rows}
    save_text(path, template.page(__package__, "Which points better?", page))


def study_id(sheets: Iterable[Sheet], systems: tuple[str, str], seed: int, raters: int) -> str:
    """Names the study: answers to another one, or to one that is shared out otherwise, do not mix with it."""
    asked = [(s.id, s.left, [(q.word, q.tokens, q.places) for q in s.questions]) for s in sheets]
    return hashlib.sha256(repr((systems, seed, raters, asked)).encode()).hexdigest()[:12]


def _row(sheet: Sheet, pictures: Sequence[Image.Image], side: int) -> dict[str, Any]:
    known = next((caption.size for caption in sheet.captions if all(caption.size)), pictures[0].size)
    return {
        "id": sheet.id,
        "size": known,
        "pictures": [embed(picture, side if len(pictures) == 1 else side // 2) for picture in pictures],
        "captions": [{"text": caption.text, "spans": caption.spans} for caption in sheet.captions],
        "left": sheet.left,
        "raters": sheet.raters,
        "questions": [
            {
                "word": question.word,
                "tokens": question.tokens,
                "places": [
                    [{"frame": x.frame, "box": [round(v, 1) for v in x.box]} for x in links]
                    for links in question.places
                ],
            }
            for question in sheet.questions
        ],
    }
