"""People's judgement of captions, from the files in which it is published.

    Flickr8k-Expert   ExpertAnnotations.txt: image, caption id, three ratings from 1 to 4
    Flickr8k-CF       CrowdFlowerAnnotations.txt: image, caption id, share of yes, number of yes, number of no
    JSON              {key: {"image_path", "ground_truth": [...], "human_judgement": [{"caption", "rating"}]}}
    CSV               a header with image, caption, and one or more columns that begin with "rating"; perhaps
                      columns that begin with "reference"

As in the CLIPScore paper (Hessel et al., EMNLP 2021): each expert's rating is a pair of its own with the metric of the
candidate, for Flickr8k-CF the share of yes is; and a candidate that is among the references of its image is left out.
The captions that the Flickr8k files name are in Flickr8k.token.txt: image#number<TAB>caption.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundling.errors import DataError
from groundling.files import Location, parse_json, read_lines, read_text

TOKENS = "Flickr8k.token.txt"
EXPERT, CROWD, JSON, CSV = "flickr8k-expert", "flickr8k-cf", "json", "csv"


@dataclass(frozen=True)
class Candidate:
    """A caption that people judged."""

    image: str
    caption: str
    references: tuple[str, ...]
    ratings: tuple[float, ...]


@dataclass(frozen=True)
class Judgements:
    kind: str
    candidates: tuple[Candidate, ...]
    left_out: int = 0  # candidates that are references of their image

    @property
    def ratings(self) -> list[tuple[int, float]]:
        """(which candidate, rating), each rating on its own."""
        return [(i, rating) for i, one in enumerate(self.candidates) for rating in one.ratings]


def read_judgements(
    path: str | Path,
    captions: str | Path | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    kind: str = "",
) -> Judgements:
    """The judgements of a file. `captions` is Flickr8k.token.txt, by default beside the file; `references` are those of
    the images of a CSV, by name."""
    path = Path(path)
    kind = kind or _kind(path)
    if kind in (EXPERT, CROWD):
        candidates = _flickr8k(path, kind, Path(captions) if captions else path.with_name(TOKENS))
    elif kind == JSON:
        candidates = _json(path)
    elif kind == CSV:
        candidates = _csv(path, references or {})
    else:
        raise DataError(f"unknown kind {kind!r}; there are {EXPERT}, {CROWD}, {JSON}, {CSV}")
    every = list(candidates)
    kept = tuple(one for one in every if _plain(one.caption) not in {_plain(text) for text in one.references})
    if not kept:
        raise DataError(f"{path}: no judgement is left to compare with")
    return Judgements(kind, kept, len(every) - len(kept))


def _kind(path: Path) -> str:
    """What the file holds, by its first line."""
    if path.suffix.lower() in (".csv", ".json"):
        return path.suffix.lower()[1:]
    first = next((line.split("\t") for _, line in read_lines(path)), [""])
    if len(first) != 5 or "#" not in first[1]:
        raise DataError(f"{path}: not a file of judgements that is known; name what it is with --kind")
    return CROWD if "." in first[2] else EXPERT


def _plain(text: str) -> str:
    return " ".join(text.split())


def _rating(text: Any, location: Location) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise location.error(f"expected a rating, got {text!r:.80}") from None
    return value


# ---------------------------------------------------------------- one reader for each


def _flickr8k(path: Path, kind: str, tokens: Path) -> Iterator[Candidate]:
    captions_by_name, of_image = _token_file(tokens)
    for number, line in read_lines(path):
        location, cells = Location(f"{path}: line {number}"), line.split("\t")
        if len(cells) != 5:
            raise location.error(f"expected 5 columns parted by tabs, got {len(cells)}")
        image, caption = cells[0].strip(), cells[1].strip()
        if caption not in captions_by_name:
            raise location.error(f"{tokens} has no caption {caption!r}")
        values = cells[2:] if kind == EXPERT else cells[2:3]
        ratings = tuple(_rating(value, location) for value in values)
        yield Candidate(image, captions_by_name[caption], tuple(of_image.get(image, ())), _known(ratings))


def _token_file(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Caption id -> text; image -> its captions."""
    if not path.exists():
        raise DataError(f"{path}: no such file; the texts of the captions are in {TOKENS}: name it with --captions")
    captions: dict[str, str] = {}
    of_image: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        id, tab, text = line.rstrip("\r").partition("\t")
        image, mark, _ = id.partition("#")
        if not (tab and mark):
            raise DataError(f"{path}: line {number}: expected image#number<TAB>caption")
        captions[id.strip()] = text.strip()
        of_image.setdefault(image, []).append(text.strip())
    return captions, of_image


def _json(path: Path) -> Iterator[Candidate]:
    location = Location(path)
    for key, row in location.expect(parse_json(read_text(path), str(path)), dict).items():
        at = location.at(key)
        references = tuple(at.items(at.get(row, "ground_truth", list), str))
        image = str(row.get("image_path") or key)
        ratings: dict[str, list[float]] = {}
        for i, one in enumerate(at.get(row, "human_judgement", list)):
            here = at.at("human_judgement", i)
            ratings.setdefault(here.get(one, "caption", str), []).append(_rating(one.get("rating"), here))
        for caption, values in ratings.items():
            yield Candidate(image, caption, references, _known(values))


def _csv(path: Path, references: Mapping[str, Sequence[str]]) -> Iterator[Candidate]:
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    names = [name for name in rows.fieldnames or () if name]
    rated = [name for name in names if name.strip().lower().startswith("rating")]
    given = [name for name in names if name.strip().lower().startswith("reference")]
    if "caption" not in names or "image" not in names or not rated:
        raise DataError(
            f"{path}: expected a header with image, caption and rating, got {', '.join(names) or 'nothing'}"
        )
    for row in rows:
        location = Location(f"{path}: line {rows.line_num}")
        image, caption = row["image"] or "", row["caption"] or ""
        own = [row[name] for name in given if row[name]] or list(references.get(image, ()))
        yield Candidate(image, caption, tuple(own), _known(_rating(row[name], location) for name in rated if row[name]))


def _known(ratings: Iterable[float]) -> tuple[float, ...]:
    """Without those that nobody gave (NaN)."""
    return tuple(value for value in ratings if math.isfinite(value))
