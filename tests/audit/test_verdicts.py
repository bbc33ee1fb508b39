"""Thresholds, overlaps, and words that a grounder never learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundling.audit.auditor import Auditor, PhraseVerdict
from groundling.audit.known import BROADER, SAME, SYNONYM, Found, Known
from groundling.audit.verdicts import FILE, GROUNDED, NOT_THERE, Thresholds, best_overlap, read_thresholds
from groundling.errors import DataError
from groundling.evaluation.evidence import Likely, PhraseEvidence
from groundling.formats.grounded import Place
from groundling.inference.evidence import CALIBRATION
from groundling.text.noun_kinds import kind_of
from groundling.text.vocab import SPECIAL, Vocabulary

WORDS = ("dog", "person", "man", "red", "couch", "vehicle", "bicycle")
VOCAB = Vocabulary(SPECIAL + WORDS, (False,) * 4 + tuple(word != "red" for word in WORDS))


def test_thresholds_are_kept_with_the_grounder(tmp_path: Path) -> None:
    assert read_thresholds(tmp_path) == Thresholds()
    chosen = Thresholds(0.4, 0.1, 700)
    (tmp_path / FILE).write_text(json.dumps(chosen.to_json()))
    assert read_thresholds(tmp_path) == chosen


def test_not_there_begins_where_the_evidence_was_fitted_to(tmp_path: Path) -> None:
    about = {"format": 2, "calibration": {"x": [0, 1], "p": [0, 1]}, "not_there": 0.17}
    (tmp_path / CALIBRATION).write_text(json.dumps(about))
    assert read_thresholds(tmp_path) == Thresholds(present=0.17)
    (tmp_path / CALIBRATION).write_text(json.dumps(about | {"caption_not_there": 0.12}))
    assert read_thresholds(tmp_path) == Thresholds(present=0.12)  # an audit is about what captions say


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"format": 1, "present": 3, "overlap": 0, "learned": 1}'])
def test_damaged_thresholds_are_named_with_the_cure(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DataError, match=r"audit.json is damaged; remove it"):
        read_thresholds(tmp_path)


def test_a_box_is_compared_with_every_likely_place_and_with_all_together() -> None:
    """Two likely places side by side: a box around both overlaps either by a half, and both together wholly."""
    likely = [(0.0, 0.0, 10.0, 10.0), (10.0, 0.0, 20.0, 10.0)]
    assert best_overlap(Place((0, 1), ((0, 0, 10, 10),)), likely) == 1
    assert best_overlap(Place((0, 1), ((0, 0, 20, 10),)), likely) == 1
    assert best_overlap(Place((0, 1), ((0, 0, 5, 10),)), likely) == 0.5
    assert best_overlap(Place((0, 1), ((30, 30, 40, 40),)), likely) == 0
    assert best_overlap(Place((0, 1), ((0, 0, 10, 10),)), []) == 0


def test_a_point_is_right_inside_a_likely_place() -> None:
    likely = [(0.0, 0.0, 10.0, 10.0), (30.0, 0.0, 40.0, 10.0)]
    assert best_overlap(Place((0, 1), (), ((5, 5),)), likely) == 1
    assert best_overlap(Place((0, 1), (), ((20, 5),)), likely) == 0  # between them


@pytest.mark.parametrize(
    ("noun", "lemma", "found"),
    [
        ("dog", "dog", Found("dog", SAME)),
        ("dogs", "dog", Found("dog", SAME)),
        ("sofa", "sofa", Found("couch", SYNONYM)),
        ("spaniel", "spaniel", Found("dog", BROADER)),
        ("plumber", "plumber", Found("person", BROADER)),
        ("blorp", "blorp", None),  # no word of WordNet
        ("theorem", "theorem", None),  # only "idea", "content", ... stand above it
        ("background", "background", None),  # has no place
        ("bicycle", "bicycle", Found("vehicle", BROADER)),  # in the vocabulary, and too rare
    ],
)
def test_an_unknown_word_is_looked_for_as_a_synonym_or_a_broader_kind(
    noun: str, lemma: str, found: Found | None
) -> None:
    assert Known(VOCAB, learned=6).find(noun, lemma) == found


def test_words_of_the_region_source_are_learned_and_no_others() -> None:
    known = Known(VOCAB, learned=1, words={"couch": 0.1, "person": 0.001})
    assert known.find("couch", "couch") == Found("couch", SAME)
    assert known.find("dog", "dog") is None  # frequent in captions, and its source cannot see it
    assert known.find("plumber", "plumber") == Found("person", BROADER)
    assert known.rare(Found("person", SAME)) and not known.rare(Found("couch", SAME))
    assert not Known(VOCAB, learned=6).rare(Found("dog", SAME))  # nobody knows in how many photos it is


def test_a_colour_is_no_broader_kind_and_ranks_count_from_one() -> None:
    known = Known(VOCAB, learned=7)
    assert known.find("crimson", "crimson") is None
    assert known.rank("dog") == 1 and known.rank("cat") is None


@pytest.mark.parametrize(
    ("lemma", "kind"),
    [("man", "people"), ("puppy", "animals"), ("hat", "clothing"), ("car", "vehicles"), ("xyz", "other")],
)
def test_classes_of_nouns(lemma: str, kind: str) -> None:
    assert kind_of(lemma) == kind


@pytest.mark.parametrize(
    ("tokens", "verdict", "p", "expected"),
    [
        (("a", "red", "dog"), GROUNDED, 0.9, GROUNDED),
        (("a", "red", "dog"), GROUNDED, 0.1, NOT_THERE),
        (("a", "red", "dog"), GROUNDED, None, None),  # the colours of the regions are not known
        (("a", "red", "dog"), NOT_THERE, 0.9, None),  # what is not there has no colour
        (("a", "red", "and", "white", "dog"), GROUNDED, 0.9, None),
        (("a", "dog"), GROUNDED, 0.9, None),
        (("two", "red"), GROUNDED, 0.9, None),  # "two oranges" are looked for as "orange": a thing, no colour
        (("red",), GROUNDED, 0.9, None),
    ],
)
def test_one_colour_of_a_thing_that_is_there_has_a_verdict(
    tokens: tuple[str, ...], verdict: str, p: float | None, expected: str | None
) -> None:
    class Grounder:
        def colour(self, regions: object, phrase: tuple[str, ...], word: str) -> float | None:
            assert phrase == tokens and word == "red"
            return p

    auditor = Auditor.__new__(Auditor)
    auditor.grounder = Grounder()  # type: ignore[assignment]
    places = (Likely((0, 0, 1, 1), 0.5),)
    one = PhraseEvidence("a red dog", (0, 9), "dog", "dog", "NN", tokens, 0.5, 0.9, places)
    verdict_on = PhraseVerdict("a red dog", (0, 9), "dog", "dog", verdict, 0.9, places)
    found = auditor._with_colour(verdict_on, one, None)  # type: ignore[arg-type]
    assert (found.colour.verdict if found.colour else None) == expected
    row = found.to_dict()
    assert row.get("colour") == (None if expected is None else {"word": "red", "verdict": expected, "probability": p})
