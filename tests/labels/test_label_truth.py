"""Labels against what people drew; calibration of their confidence."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from groundling.errors import DataError
from groundling.labels import Label, LabelledImage, Mention, PlacedBox
from groundling.labels.calibration import FILE, FORMAT, Calibration, Judged, beside, fit, read
from groundling.labels.truth import Tally
from groundling.text.words import caption
from groundling.types import Box, Example, Phrase

TEXT = "a man and two dogs on grass"


def box(*corners: float, confidence: float = 0.9) -> PlacedBox:
    left, top, right, bottom = corners
    return PlacedBox((left, top, right, bottom), confidence, confidence)


def example() -> Example:
    """A man (one box), two dogs (two boxes), and grass, which nobody drew."""
    dogs: tuple[Box, ...] = ((50, 0, 60, 10), (70, 0, 80, 10))
    gold = (
        Phrase(0, (0, 2), ((0, 0, 10, 20),), entity="1"),
        Phrase(0, (3, 5), dogs, entity="2"),
        Phrase(0, (6, 7), (), entity="3"),
    )
    return Example("x", "", (100, 50), (caption(TEXT),), gold)


def label(start: int, end: int, *boxes: PlacedBox) -> Label:
    return Label(TEXT[start:end], "thing", (Mention(0, (start, end)),), boxes)


def tally(*labels: Label) -> Tally:
    found = Tally()
    found.add(LabelledImage("x", "", (100, 50), (TEXT,), labels), example())
    return found


MAN, DOGS, GRASS = (0, 5), (10, 18), (22, 27)


def test_precision_and_recall_by_hand() -> None:
    """The man is right, one dog of two is right, the grass cannot be judged: 2 of 3 boxes, both entities found."""
    found = tally(
        label(*MAN, box(0, 0, 10, 19)),
        label(*DOGS, box(50, 0, 60, 10), box(0, 0, 5, 5, confidence=0.3)),
        label(*GRASS, box(0, 30, 90, 50)),
    )
    point = found.curve()[0]
    assert point.boxes == 4
    assert point.precision == pytest.approx(2 / 3)
    assert point.strict_precision == pytest.approx(2 / 4)
    assert point.recall == 1.0
    assert point.box_recall == pytest.approx(2 / 3)
    sure = next(one for one in found.curve() if one.threshold == 0.5)
    assert (sure.boxes, sure.precision) == (3, 1.0)


def test_a_true_box_is_found_once() -> None:
    found = tally(label(*DOGS, box(50, 0, 60, 10), box(50, 0, 61, 10)))
    assert [one.right for one in found.boxes] == [True, False]


def test_one_box_around_all_of_them_is_right() -> None:
    assert tally(label(*DOGS, box(50, 0, 80, 10))).boxes[0].right is True


def test_labels_that_name_no_thing_are_not_judged() -> None:
    found = tally(replace(label(*MAN, box(0, 0, 10, 20)), left_out="probably not in the image"))
    assert found.boxes == []
    unsure = tally(replace(label(*MAN, box(0, 0, 10, 20)), left_out="confidence 0.20 is below 0.6"))
    assert len(unsure.boxes) == 1


def test_merged_phrases_are_compared_with_the_annotators_chains() -> None:
    """Two captions; we join man with man (right) and dogs with man (wrong)."""
    said = "a man and dogs"
    gold = tuple(
        Phrase(c, span, ((0, 0, 9, 9),), entity=e) for c in (0, 1) for span, e in (((0, 2), "1"), ((3, 4), "2"))
    )
    whole = Example("y", "", (10, 10), (caption(said), caption(said)), gold)
    man, dogs = (0, 5), (10, 14)
    labels = (
        Label("a man", "man", (Mention(0, man), Mention(1, man), Mention(1, dogs))),
        Label("dogs", "dog", (Mention(0, dogs),)),
    )
    found = Tally()
    found.add(LabelledImage("y", "", (10, 10), (said, said), labels), whole)
    told = found.chains()
    assert told.mentions == 4
    assert (told.precision, told.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 2))


def judged(n: int = 40) -> list[Judged]:
    return [Judged(i / n, i % 2 == 0 or i > n / 2, False, str(i)) for i in range(n)]


def test_a_calibration_never_falls_and_survives_json() -> None:
    fitted = fit(judged(), "abc")
    p = fitted.probability([0.0, 0.3, 0.6, 1.0], False)
    assert p == sorted(p) and p[0] < 0.7 < p[-1]
    assert Calibration.from_json(json.loads(json.dumps(fitted.to_json()))) == fitted


def test_too_few_boxes_are_refused() -> None:
    with pytest.raises(DataError, match="too few"):
        fit(judged(5))


def test_a_calibration_of_other_weights_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_text(json.dumps(fit(judged(), "abc").to_json()))
    assert beside(tmp_path, "abc") is not None
    with caplog.at_level(logging.WARNING):
        assert beside(tmp_path, "other") is None
    assert "other weights" in caplog.text
    assert beside(tmp_path / "nowhere", "abc") is None


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, json.dumps({"format": FORMAT})])
def test_a_damaged_calibration_is_named_with_its_cure(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(DataError, match="labels.json is damaged.*score labels"):
        read(tmp_path / FILE)
