"""What the official files of Flickr30k-Entities and ActivityNet-Entities have in common: splits, results, lemmas."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groundling.errors import DataError
from groundling.files import Location, Source, read_json
from groundling.text.morphology import lemma_of

log = logging.getLogger(__name__)

Lemmas = Source | Callable[[str], str]


def split_ids(split_file: Source, split: str | Sequence[str]) -> set[str]:
    """The ids of one or several splits; `split_file` maps each split to its list of ids."""
    splits, name = read_json(split_file, "split file")
    location = Location(name)
    known = location.expect(splits, dict)
    chosen: set[str] = set()
    for wanted in [split] if isinstance(split, str) else split:
        if wanted not in known:
            raise location.error(f"no split {wanted!r}; there are {', '.join(map(str, known)) or 'none'}")
        at = location.at(wanted)
        ids = [identity(at.at(i), value) for i, value in enumerate(at.expect(known[wanted], list))]
        if len(set(ids)) < len(ids):
            twice = next(x for x in ids if ids.count(x) > 1)
            raise at.error(f"the id {twice!r} occurs twice; keep one")
        chosen.update(ids)
    return chosen


def results_of(submission: Source) -> tuple[dict[str, Any], Location]:
    """The `results` of a submission, and where they are."""
    value, name = read_json(submission, "submission")
    return Location(name).get(value, "results", dict), Location(name, "results")


def identity(location: Location, value: Any) -> str:
    """An id, which some files write as a number and others as a string."""
    if isinstance(value, str):
        return value
    return str(location.expect(value, int))


def lemmatiser(lemmas: Lemmas | None) -> tuple[Callable[[str], str], str]:
    """A function from words to lemmas, and its name for signatures. A table must know every word it is asked for."""
    if lemmas is None:
        return lemma_of, "groundling"
    if callable(lemmas):
        return lemmas, "given"
    value, name = read_json(lemmas, "lemma table")
    location = Location(name)
    table: Mapping[str, Any] = location.expect(value, dict)

    def look_up(word: str) -> str:
        if word not in table:
            raise DataError(
                f"{name}: no lemma for {word!r}; add it, or score without a table to use the built-in rules"
            )
        return location.at(word).expect(table[word], str)

    return look_up, "table"


def split_name(split: str | Sequence[str]) -> str:
    return split if isinstance(split, str) else "+".join(split)


def warn_if_empty(sentences: Sequence[Any], split: str | Sequence[str]) -> None:
    """All scores are NaN without references: an error is better."""
    if not sentences:
        name = split_name(split)
        log.warning("the reference has no annotation in split %s: scores are NaN (are its boxes withheld?)", name)
